"""The official Python client against a server: `client.py work|denial|failure`. Run by `check`."""

import asyncio
import json
import os
import re
import sys

from mcp.client.client import Client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

URL = os.environ["WORLDLOG_URL"]
HEADERS = {"Authorization": "Bearer " + os.environ["WORLDLOG_TOKEN"]}


async def call(client, name, args):
    result = await client.call_tool(name, args)
    assert json.loads(result.content[0].text) == result.structured_content, result
    return result


def accepted(result):
    assert not result.is_error and len(result.content) == 1, result
    assert result.structured_content["ok"] is True, result
    return result.structured_content


def refused(result, reason):
    assert result.is_error and result.structured_content["ok"] is False, result
    assert reason in result.structured_content["refused"], result
    assert reason in result.content[1].text, result


async def work(client):
    names = [tool.name for tool in (await client.list_tools()).tools]
    assert {"ailang-edit", "ailang-read", "ailang-write"} <= set(names), names
    path = "check-python.txt"
    accepted(await call(client, "ailang-write", {"path": path, "content": "one \U0001f980\n"}))
    read = accepted(await call(client, "ailang-read", {"path": path}))
    assert read["content"] == "one \U0001f980\n", read
    accepted(await call(client, "ailang-edit", {"path": path, "old_text": "one", "new_text": "two"}))
    read = accepted(await call(client, "ailang-read", {"path": path}))
    assert read["content"] == "two \U0001f980\n", read
    refused(await call(client, "ailang-read", {"path": path, "limit": 5}), 'unknown argument "limit"')
    edit = {"path": path, "old_text": "absent", "new_text": ""}
    refused(await call(client, "ailang-edit", edit), "old_text not found")
    for name in names:
        refused(await call(client, name, {"nonsense": True}), 'unknown argument "nonsense"')
    try:
        await client.call_tool("no-such-tool", {})
    except Exception as error:  # noqa: BLE001, the class differs between releases
        assert "unknown tool" in str(error), repr(error)
    else:
        raise AssertionError("a tool that is not there was called")


async def denial(client):
    for _ in range(2_000):
        result = await call(client, "ailang-read", {"path": "check-python.txt"})
        if not result.is_error:
            continue
        assert list(result.structured_content) == ["world"], result
        assert result.structured_content["world"]["effects"][0]["status"] == "denied", result
        assert re.match("denied:budget", result.content[1].text), result
        return
    raise AssertionError("no denial within 2000 reads: give the session a smaller budget")


async def failure(client):
    try:
        await client.call_tool("ailang-write", {"path": "never.txt", "content": "x"})
    except Exception as error:  # noqa: BLE001, the class differs between releases
        error = getattr(error, "error", error)
        assert "host callback failed" in str(getattr(error, "message", error)), repr(error)
        assert getattr(error, "code", -32603) == -32603, repr(error)
        return
    raise AssertionError("the call was answered")


async def main(phase):
    async with create_mcp_http_client(headers=HEADERS) as http:
        # It asks in the newest revision.
        async with Client(streamable_http_client(URL, http_client=http)) as client:
            await {"work": work, "denial": denial, "failure": failure}[phase](client)
    print(f"ok python {phase}")


asyncio.run(main(sys.argv[1]))
