"""Scripts of outputs, in a frame that has nothing: no login, no origin, no host beyond the listed ones.

Two frames, one in the other. What the inner one may load is its content security policy; where it may be led is the
outer one's, which has no script (`frame-src`: a document's own policy does not bind its own navigation). What no policy
of browsers covers yet is taken away before the first script of the output runs: WebRTC; links, which look names up
and connect ahead (a style sheet's becomes a style that imports it); and new frames in which there would be a fresh one
(Trusted Types hold every way in which a text becomes markup; documents that come read are refused; and whatever gets
into the page or a shadow of it is looked at before it can load).
"""

from __future__ import annotations

import base64
import html as entities
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST_HEIGHT, USUAL_HEIGHT, MOST_HEIGHT = 60, 450, 1000

_MARGIN = 24
_HEIGHTS = re.compile(
    r"(?:height\s*[:=]\s*[\"']?|\"height\"\s*:\s*|fig_height\s*=\s*)(\d{2,4})(?:px\b|\b(?!\s*%))",
    re.IGNORECASE,
)

_BOOT = r"""
(() => {
  "use strict";
  const TAGS = "iframe|frame|frameset|object|embed|portal|fencedframe|link|meta|base";
  const OTHERS = "|shadowrootmode|<!entity|<!attlist";
  const FRAMES = new RegExp("<\\/?(?:[^\\s<>\\/]*:)?(?:" + TAGS + ")(?=[\\s\\/>])" + OTHERS, "i");
  const HELD = "iframe,frame,frameset,object,embed,portal,fencedframe,base,meta,link";
  const SRCDOC = new RegExp("srcdoc", "i");
  // What the output's scripts may replace later is bound now.
  const bound = method => Function.prototype.call.bind(method);
  const getter = (kind, name) => bound(Object.getOwnPropertyDescriptor(kind.prototype, name).get);
  const fix = (where, name, what) => Object.defineProperty(where, name, {...what, configurable: false});
  const exec = bound(RegExp.prototype.exec);
  let open = true;
  if (window.trustedTypes) {
    trustedTypes.createPolicy("default", {
      createHTML: (text, type, sink) =>
        (!open && (exec(SRCDOC, `${sink}`) !== null || exec(FRAMES, `${text}`) !== null) ? "" : `${text}`),
      createScript: text => text,
      createScriptURL: text => text,
    });
  }
  const gone = ["RTCPeerConnection", "webkitRTCPeerConnection", "mozRTCPeerConnection", "RTCDataChannel",
    "RTCIceTransport", "WebTransport", "XSLTProcessor", "PresentationRequest", "open", "ShadowRealm",
    "PaymentRequest", "MediaMetadata"];  // the browser itself loads what these two name
  for (const name of gone) {
    try { Object.defineProperty(window, name, {value: undefined, configurable: false, writable: false}); } catch {}
  }
  const typeOf = getter(Node, "nodeType"), lengthOf = getter(NodeList, "length"), item = bound(NodeList.prototype.item);
  const added = getter(MutationRecord, "addedNodes"), matches = bound(Element.prototype.matches);
  const all = bound(Element.prototype.querySelectorAll), remove = bound(Element.prototype.remove);
  const sweep = node => {
    if (typeOf(node) !== 1) return;
    if (matches(node, HELD)) { remove(node); return; }
    const found = all(node, HELD);
    for (let index = lengthOf(found) - 1; index >= 0; index--) remove(item(found, index));
  };
  const observer = new MutationObserver(list => {
    for (let one = 0; one < list.length; one++) {
      const nodes = added(list[one]);
      for (let index = lengthOf(nodes) - 1; index >= 0; index--) sweep(item(nodes, index));
    }
  });
  const observe = bound(MutationObserver.prototype.observe), TREE = {__proto__: null, childList: true, subtree: true};
  observe(observer, document, TREE);
  const attach = bound(Element.prototype.attachShadow);
  fix(Element.prototype, "attachShadow", {writable: false, value(init) {
    const {mode, delegatesFocus = false, slotAssignment = "named"} = init;
    // A copy of the root would be one that nobody looks at.
    const root = attach(this, {__proto__: null, mode, delegatesFocus, slotAssignment, clonable: false});
    observe(observer, root, TREE);
    return root;
  }});
  // Documents that no policy has read: XML may hold frames under any name.
  const kind = Object.getOwnPropertyDescriptor(XMLHttpRequest.prototype, "responseType");
  const setKind = bound(kind.set);
  fix(XMLHttpRequest.prototype, "responseType", {get: kind.get, set(value) {
    const asked = `${value}`;
    setKind(this, asked === "document" ? "text" : asked);
  }});
  fix(XMLHttpRequest.prototype, "responseXML", {get: () => null, set: undefined});
  // A link acts as soon as it is in the page, before anybody can look: no script gets one.
  const create = bound(Document.prototype.createElement), createIn = bound(Document.prototype.createElementNS);
  const slice = bound(String.prototype.slice), lower = bound(String.prototype.toLowerCase);
  const give = bound(Element.prototype.setAttribute), quoted = JSON.stringify, own = document;
  const fill = bound(Object.getOwnPropertyDescriptor(Node.prototype, "textContent").set);
  const SHEET = new RegExp("(^|\\s)stylesheet(\\s|$)", "i");
  const sheet = () => {
    const style = create(own, "style"), said = {__proto__: null, rel: "", href: ""};
    const say = (name, value) => {
      said[name] = value;
      fill(style, exec(SHEET, said.rel) !== null && said.href ? `@import url(${quoted(said.href)});` : "");
    };
    for (const name of ["rel", "href"]) fix(style, name, {get: () => said[name], set: value => say(name, `${value}`)});
    fix(style, "setAttribute", {writable: false, value(name, value) {
      const key = lower(`${name}`);
      if (key === "rel" || key === "href") say(key, `${value}`); else give(style, key, `${value}`);
    }});
    return style;
  };
  const isLink = name => {
    let at = name.length;
    while (at > 0 && name[at - 1] !== ":") at--;
    return lower(slice(name, at)) === "link";
  };
  fix(Document.prototype, "createElement", {writable: false, value(name, options) {
    const asked = `${name}`;
    return isLink(asked) ? sheet() : create(this, asked);
  }});
  fix(Document.prototype, "createElementNS", {writable: false, value(space, name, options) {
    const asked = `${name}`;
    return isLink(asked) ? sheet() : createIn(this, space === null ? null : `${space}`, asked);
  }});
  const define = bound(CustomElementRegistry.prototype.define);
  fix(CustomElementRegistry.prototype, "define", {writable: false, value(name, kind) { define(this, name, kind); }});
  const KEPT = new RegExp("^(?:innerHTML|outerHTML|insertAdjacentHTML|getHTML)$");
  for (const where of [Element.prototype, ShadowRoot.prototype, Document.prototype, Document, Range.prototype]) {
    for (const name of Object.getOwnPropertyNames(where)) {
      // Whatever else makes elements of a text: not all of it is asked about by Trusted Types.
      if (name.includes("HTML") && exec(KEPT, name) === null) delete where[name];
    }
  }
  const bytes = Uint8Array.from(atob(PAYLOAD), one => one.charCodeAt(0));
  const parsed = new DOMParser().parseFromString(new TextDecoder().decode(bytes), "text/html");
  open = false;
  for (const one of parsed.querySelectorAll("link[rel~=stylesheet i]")) {
    const style = sheet();
    for (const {name, value} of one.attributes) style.setAttribute(name, value);
    one.replaceWith(style);
  }
  sweep(parsed.documentElement);
  for (const name of ["lang", "class", "style"]) {
    const value = parsed.body.getAttribute(name);
    if (value !== null) document.body.setAttribute(name, value);
  }
  const scripts = [...parsed.querySelectorAll("script")];
  const marks = scripts.map(() => document.createElement("sentinel-script"));
  scripts.forEach((one, index) => one.replaceWith(marks[index]));
  document.head.append(...parsed.head.childNodes);
  document.body.append(...parsed.body.childNodes);
  const run = async () => {
    for (const [index, one] of scripts.entries()) {
      const fresh = document.createElement("script");
      for (const {name, value} of one.attributes) fresh.setAttribute(name, value);
      fresh.textContent = one.textContent;
      const waits = fresh.src && !fresh.hasAttribute("async") && fresh.type !== "module";
      const done = waits && new Promise(resolve => { fresh.onload = fresh.onerror = resolve; });
      fresh.async = false;
      marks[index].replaceWith(fresh);
      if (done) await done;
    }
    document.dispatchEvent(new Event("DOMContentLoaded"));
    window.dispatchEvent(new Event("load"));
  };
  run();
})();
"""
_SPACES = re.compile(r"\n\s*")


def framed(html: str, hosts: Sequence[str]) -> str:
    """Return the HTML of a frame that shows ``html`` and runs its scripts. ``hosts`` are the listed ones."""
    loads = "".join(f" https://{host}" for host in hosts)
    policy = (
        f"default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval' blob:{loads}; style-src 'unsafe-inline'{loads}; "
        f"img-src data: blob:{loads}; font-src data:{loads}; media-src data: blob:{loads}; "
        f"connect-src data: blob:{loads}; "
        "worker-src blob:; frame-src 'none'; child-src blob:; object-src 'none'; form-action 'none'; base-uri 'none'; "
        "manifest-src 'none'; webrtc 'block'"
    )
    script = _SPACES.sub("\n", _BOOT).replace("PAYLOAD", '"PAYLOAD"')
    look = "<style>html,body{margin:0;background:#fff;color:#000}body{padding:4px;font-family:sans-serif}</style>"
    typed = f"{policy}; require-trusted-types-for 'script'; trusted-types default"
    inner = f"{_head(typed)}{look}</head><body><script>{script}</script></body></html>"
    filling = "position:absolute;inset:0;width:100%;height:100%;border:0;background:#fff"
    outer = (
        f"{_head(policy)}</head><body>"
        f'<iframe sandbox="allow-scripts" style="{filling}" srcdoc="{entities.escape(inner)}"></iframe></body></html>'
    )
    whole = (
        f'<div style="height:{height(html)}px;min-height:{LEAST_HEIGHT}px;resize:vertical;overflow:hidden">'
        '<iframe title="output" class="sentinel-frame" sandbox="allow-scripts" referrerpolicy="no-referrer" '
        f'style="width:100%;height:100%;border:0;background:#fff" srcdoc="{entities.escape(outer)}"></iframe></div>'
    )
    # Put in last: its letters are never escaped, and each step above would copy them.
    before, _, behind = whole.rpartition("PAYLOAD")
    return "".join((before, base64.b64encode(html.encode("utf-8", "replace")).decode("ascii"), behind))


def height(html: str) -> int:
    """Return how high a frame for ``html`` is, in pixels: as high as the content says it is, within bounds."""
    # Libraries come first and are long; what they are told to draw stands at the end.
    said = [int(one) for one in _HEIGHTS.findall(html[-200_000:])]
    usual = [one for one in said if LEAST_HEIGHT <= one <= MOST_HEIGHT]
    return min(max(usual) + _MARGIN, MOST_HEIGHT) if usual else USUAL_HEIGHT


def _head(policy: str) -> str:
    return (
        '<!DOCTYPE html><html><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="referrer" content="no-referrer"><meta http-equiv="x-dns-prefetch-control" content="off">'
    )
