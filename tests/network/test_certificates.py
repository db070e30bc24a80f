"""Certificates that the person's environment names reach the cells of a profile with hosts, and nothing beside them."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import trustme
from network_notebook import world

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.requires("root"),  # who alone can make a network
    pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications"),
]

PROFILE: dict[str, Any] = {
    "extends": "datascience",
    "network": {"allow": True, "allow_dns": True, "hosts": ["web.example.org:443"]},
}
SERVER = """
import http.server, ssl, sys
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "8")
        self.end_headers()
        self.wfile.write(b"over TLS")
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1])
server = http.server.ThreadingHTTPServer(("192.0.2.10", 443), Page)
server.socket = context.wrap_socket(server.socket, server_side=True)
print("ready", flush=True)
server.serve_forever()
"""
ASK = {
    "urllib": (
        "from urllib.request import urlopen\nprint(urlopen('https://web.example.org/', timeout=30).read().decode())"
    ),
    "requests": "import requests\nprint(requests.get('https://web.example.org/', timeout=30).text)",
    "httpx": "import httpx\nprint(httpx.get('https://web.example.org/', timeout=30).text)",
}


def test_tls_of_a_private_authority_is_trusted_as_outside(tmp_path: Path) -> None:
    authority, folder = trustme.CA(), tmp_path / "corp"
    folder.mkdir()
    chain = folder / "chain.pem"
    authority.issue_cert("web.example.org").private_key_and_cert_chain_pem.write_to_path(chain)
    # One file with the authority's key in it, as careless people keep it; and a folder as OpenSSL reads it.
    both = folder / "both.pem"
    both.write_bytes(authority.private_key_pem.bytes() + authority.cert_pem.bytes())
    by_hash = folder / "by-hash"
    by_hash.mkdir()
    (by_hash / "ca.pem").write_bytes(authority.cert_pem.bytes())
    (by_hash / "id_rsa").write_text("a key")
    subprocess.run(["openssl", "rehash", str(by_hash)], check=True, timeout=60)
    with world(tmp_path / "w") as outside:
        server = subprocess.Popen(
            [*outside.hosts.far_prefix(), sys.executable, "-c", SERVER, str(chain)], stdout=subprocess.PIPE
        )
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            named = {name: str(both) for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")}
            with outside.notebook(PROFILE, SSL_CERT_DIR=str(by_hash), **named) as book:
                for program in ASK.values():
                    assert book.run(program).text == "over TLS\n"
                assert "over TLS" in book.run("!curl -s --max-time 30 https://web.example.org/").text
                look = (
                    "import os\nplace = os.environ['SSL_CERT_FILE']\ntext = open(place).read()\n"
                    "print('KEY' in text, text.count('BEGIN CERTIFICATE'), os.access(place, os.W_OK))\n"
                    f"print(os.path.exists({str(both)!r}), 'id_rsa' in os.listdir(os.environ['SSL_CERT_DIR']))"
                )
                assert book.run(look).text == "False 1 False\nFalse False\n"
                # The folder does it alone; and without either nobody is trusted.
                book.run("del os.environ['SSL_CERT_FILE']")
                assert book.run(ASK["urllib"]).text == "over TLS\n"
                book.run("del os.environ['SSL_CERT_DIR']")
                assert "CERTIFICATE_VERIFY_FAILED" in book.run(ASK["urllib"]).reply["evalue"]
        finally:
            server.kill()
            server.communicate()
