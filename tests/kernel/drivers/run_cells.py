"""Run cells on the kernel called argv[1], and print what each gave as one JSON list: text, results, error names.

Cells come as JSON on the standard input. "interrupt:" before a cell interrupts it as soon as it has printed; "input:"
answers its prompt with "typed"; "complete:" asks for completions at its end.
"""

import json
import sys

from jupyter_client.manager import start_new_kernel

SECONDS = 60


def follow(client, manager, msg_id, kind):
    found = {"text": "", "results": [], "errors": []}
    if kind == "input":
        client.get_stdin_msg(timeout=SECONDS)
        client.input("typed")
    while True:
        message = client.get_iopub_msg(timeout=SECONDS)
        content = message["content"]
        if message["parent_header"].get("msg_id") != msg_id:
            continue
        if message["msg_type"] == "stream":
            found["text"] += content["text"]
            if kind == "interrupt":
                manager.interrupt_kernel()
                kind = ""
        elif message["msg_type"] in ("execute_result", "display_data", "update_display_data"):
            found["results"].append(content["data"].get("text/plain", ""))
        elif message["msg_type"] == "error":
            found["errors"].append(f"{content['ename']}: {content['evalue']}")
        elif content.get("execution_state") == "idle":
            return found


def reply(client, msg_id):
    while True:
        message = client.get_shell_msg(timeout=SECONDS)  # a slow start leaves replies that nobody waited for
        if message["parent_header"].get("msg_id") == msg_id:
            return message["content"]


def main():
    manager, client = start_new_kernel(kernel_name=sys.argv[1], startup_timeout=SECONDS)
    found = []
    try:
        for source in json.load(sys.stdin):
            kind, separator, code = source.partition(": ")
            if not separator or kind not in ("interrupt", "input", "complete"):
                kind, code = "", source
            if kind == "complete":
                found.append(reply(client, client.complete(code))["matches"])
                continue
            msg_id = client.execute(code, allow_stdin=kind == "input")
            found.append(follow(client, manager, msg_id, kind))
            reply(client, msg_id)
        print(json.dumps(found))
    finally:
        client.stop_channels()
        manager.shutdown_kernel()


main()
