"""An MCP server without the library, which starts at once. It counts its calls, and misbehaves."""

import json
import os
import sys
import time

calls = 0


def answered(method: str, params: dict) -> dict:
    global calls
    if method == "initialize":
        server = {"name": "raw", "version": "0"}
        capabilities = {"tools": {}}
        version = params["protocolVersion"]
        return {"protocolVersion": version, "capabilities": capabilities, "serverInfo": server}
    if method == "tools/list":  # two pages
        page = params.get("cursor", "count")
        schema = {"type": "object"}
        following = {"nextCursor": "clear"} if page == "count" else {}
        return {"tools": [{"name": page, "inputSchema": schema}], **following}
    if params["name"] == "clear":
        calls = 0
        return {"content": [{"type": "text", "text": "0"}]}
    if params["name"] != "count":
        raise ValueError(f"no tool {params['name']}")
    calls += 1
    how = params["arguments"].get("how")
    if how == "die":
        sys.exit(3)
    if how == "hang":
        time.sleep(1000)
    if how == "nonsense":
        return {"content": 3}
    if how == "refuse":
        raise ValueError("no such count")
    while how in ("flood", "chatter"):
        os.write(1, b"x" * 10_000 + (b"\n" if how == "chatter" else b""))
    if how == "long":
        return {"content": [{"type": "text", "text": "x" * 200_000}]}
    if how == "structured":
        return {"content": [], "structuredContent": {"count": calls}}
    if how == "link":
        return {"content": [{"type": "resource_link", "uri": "file:///count", "name": "count"}]}
    if how == "image":
        image = {"type": "image", "data": "", "mimeType": "image/png"}
        return {"content": [image, {"type": "text", "text": str(calls)}]}
    return {"content": [{"type": "text", "text": str(calls)}]}


for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    reply = {"jsonrpc": "2.0", "id": request["id"]}
    try:
        reply["result"] = answered(request["method"], request.get("params") or {})
    except Exception as error:
        reply["error"] = {"code": -32602, "message": str(error)}
    print(json.dumps(reply), flush=True)
