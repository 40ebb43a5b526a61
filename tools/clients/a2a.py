"""The official Python A2A client against a server: `a2a.py work|denial|failure`. Run by `a2a`."""

import asyncio
import os
import re
import sys
from uuid import uuid4

# The module has the package's name: what lies beside it is not what is meant.
sys.path.pop(0)

import httpx  # noqa: E402
from a2a.client import A2AClientError, ClientConfig, create_client  # noqa: E402
from a2a.types import a2a_pb2 as pb  # noqa: E402
from a2a.utils import errors  # noqa: E402
from google.protobuf.json_format import MessageToDict, ParseDict  # noqa: E402

URL = os.environ["WORLDLOG_URL"]
TOKEN = os.environ["WORLDLOG_TOKEN"]


async def connect(token):
    """A client whose calls bring the token; the card is fetched with it too, and shows the session's skills."""
    http = httpx.AsyncClient(headers={"Authorization": "Bearer " + token}, timeout=30)
    return await create_client(URL, ClientConfig(httpx_client=http))


def request(skill, data, message_id=None):
    message = {"messageId": message_id or str(uuid4()), "role": "ROLE_USER", "parts": [{"data": data}]}
    return ParseDict({"message": message, "metadata": {"skill_id": skill}}, pb.SendMessageRequest())


async def call(client, skill, data, message_id=None):
    events = [event async for event in client.send_message(request(skill, data, message_id))]
    assert len(events) == 1, events
    task = MessageToDict(events[0].task)
    assert task["status"]["state"] == "TASK_STATE_COMPLETED", task
    assert re.fullmatch("sha256:[0-9a-f]{64}", task["metadata"]["world_ref"]), task
    return task


def output(task):
    return task["artifacts"][0]["parts"][0]["data"]


def accepted(task):
    assert "message" not in task["status"] and output(task)["ok"] is True, task
    return output(task)


def refused(task, reason):
    assert output(task)["ok"] is False and reason in output(task)["refused"], task
    assert reason in task["status"]["message"]["parts"][0]["text"], task


async def fails(kind, text, awaitable):
    try:
        await awaitable
    except kind as error:
        assert text in str(error), error
        return error
    raise AssertionError(f"no {kind.__name__}")


async def work(client):
    card = await client.get_extended_agent_card(pb.GetExtendedAgentCardRequest())
    skills = {skill.id for skill in card.skills}
    assert {"ailang-edit", "ailang-read", "ailang-write"} <= skills, skills
    path, message_id = "check-a2a-python.txt", str(uuid4())
    write = {"path": path, "content": "one \U0001f980\n"}
    first = await call(client, "ailang-write", write, message_id)
    accepted(first)
    assert await call(client, "ailang-write", write, message_id) == first
    read = accepted(await call(client, "ailang-read", {"path": path}))
    assert read["content"] == "one \U0001f980\n", read
    refused(await call(client, "ailang-read", {"path": path, "limit": 5}), 'unknown argument "limit"')
    edit = {"path": path, "old_text": "absent", "new_text": ""}
    refused(await call(client, "ailang-edit", edit), "old_text not found")
    found = MessageToDict(await client.get_task(pb.GetTaskRequest(id=first["id"])))
    assert found == first, found
    listed = await client.list_tasks(pb.ListTasksRequest(page_size=2, context_id=first["contextId"]))
    assert len(listed.tasks) == 2 and listed.total_size >= 4 and listed.next_page_token, listed
    none = client.get_task(pb.GetTaskRequest(id=str(uuid4())))
    await fails(errors.TaskNotFoundError, "task not found", none)
    over = client.cancel_task(pb.CancelTaskRequest(id=first["id"]))
    await fails(errors.TaskNotCancelableError, "cannot be canceled", over)
    await fails(errors.InvalidParamsError, "not authorized", call(client, "no-such-skill", {}))
    await fails(errors.InvalidParamsError, "messageId", anext(client.send_message(pb.SendMessageRequest(message=pb.Message()))))
    async with httpx.AsyncClient() as http:
        stranger = await create_client(URL, ClientConfig(httpx_client=http))
        await fails(A2AClientError, "401", call(stranger, "ailang-read", {"path": path}))


async def denial(client):
    for _ in range(2_000):
        task = await call(client, "ailang-read", {"path": "check-a2a-python.txt"})
        if "denial" not in task["metadata"]["worldlog/receipt"]:
            continue
        assert list(output(task)) == ["world"], task
        assert output(task)["world"]["effects"][0]["status"] == "denied", task
        assert task["status"]["message"]["parts"][0]["text"].startswith("denied:budget"), task
        return
    raise AssertionError("no denial within 2000 reads: give the session a smaller budget")


async def failure(client):
    sentence = "invocation was not committed; send a new message id"
    write = call(client, "ailang-write", {"path": "a", "content": "x"})
    error = await fails(errors.InternalError, sentence, write)
    assert error.data["safe_to_repeat"] == "true" and error.data["phase"] == "intent", error


async def main(phase):
    async with await connect(TOKEN) as client:
        await {"work": work, "denial": denial, "failure": failure}[phase](client)
    print(f"ok a2a python {phase}")


asyncio.run(main(sys.argv[1]))
