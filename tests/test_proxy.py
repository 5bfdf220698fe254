"""minprm record: a proxy before any API, whose logs hold what was said, and no key."""

import http.client
import json
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Barrier, Event, Thread
from urllib.parse import urlsplit

import pytest

from minprm.commands import record, recording
from minprm.commands.logs import main as logs
from minprm.commands.recording import Recorder
from minprm.endpoint.server import message_in
from minprm.logs.reader import read_demos
from shared.endpoints import user

KEY = "sk-very-secret-0123456789"
# one tool, in an order of keys and with a field that no other program would give it
TOOLS = [{"function": {"strict": True, "name": "find_order", "parameters": {"type": "object",
          "properties": {"number": {"title": "Number", "type": "string"}}}},
          "type": "function"}]  # fmt: skip


class Api(BaseHTTPRequestHandler):
    """An API that calls a tool for each question, and answers from what the tool has said."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.asked.append((self.path, dict(self.headers), b""))
        self.reply(200, b'{"object": "list", "data": [{"id": "theirs"}]}')

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.path, dict(self.headers), body))
        fields = json.loads(body)
        if self.path.endswith("/embeddings"):
            self.reply(200, b'{"data": []}')
            return
        last = fields["messages"][-1]
        if last["content"] == "too often":
            self.reply(429, b'{"error": {"message": "slowly",\n "code": 7}}', ("Retry-After", "3"))
        elif last["content"] == "elsewhere":
            self.reply(302, b"", ("Location", f"http://127.0.0.1:{self.server.server_port}/other"))
        elif last["content"] == "cut":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"choices": [')
            self.close_connection = True
        elif fields.get("stream"):
            self.stream(message_to(last), last["content"])
        else:
            choice = {"index": 0, "message": message_to(last), "finish_reason": "stop"}
            self.reply(200, json.dumps({"id": "1", "choices": [choice]}, indent=1).encode())

    def reply(self, status, body, *headers):
        self.send_response(status)
        for name, text in [*headers, ("Content-Type", "application/json"), ("X-Request-Id", "9")]:
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self, message, question):
        """The message letter by letter, calls too."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b": a comment\n\n")
        for number, delta in enumerate(pieces(message)):
            if question == "wait" and number == 3:
                assert self.server.go_on.wait(20)
            if question == "broken" and number == 3:
                self.close_connection = True
                return
            self.event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        self.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        self.event({"choices": [], "usage": {"total_tokens": 3}})
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def event(self, event):
        self.wfile.write(f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode())


def message_to(last: dict) -> dict:
    """What the API answers."""
    message = {"role": "assistant", "content": None, "refusal": None}
    if last["role"] == "tool":
        return {**message, "content": f"It is in {last['content']}\u2028now.", "reasoning": "so"}
    call = {"name": "find_order", "arguments": json.dumps({"number": last["content"]})}
    calls = [{"id": "call_7", "type": "function", "function": call}]
    return {**message, "reasoning_content": "I look.", "tool_calls": calls}


def pieces(message: dict) -> list[dict]:
    deltas: list[dict] = [{"role": "assistant", "content": None}]
    for key in ("reasoning_content", "reasoning", "content"):
        deltas += [{key: letter} for letter in message.get(key) or ""]
    for number, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        head = {**call, "index": number, "function": {**function, "arguments": ""}}
        deltas.append({"tool_calls": [head]})
        for letter in function["arguments"]:
            part = {"index": number, "function": {"arguments": letter}}
            deltas.append({"tool_calls": [part]})
    return deltas


@pytest.fixture
def api(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    server.daemon_threads = True
    server.asked = []
    server.go_on = Event()
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def recorder(api, tmp_path):
    recorder = Recorder(f"http://127.0.0.1:{api.server_port}/v9/", tmp_path, 0)
    yield recorder
    recorder.close()


def url_of(recorder: Recorder) -> str:
    return f"http://127.0.0.1:{recorder.server.server_address[1]}/v1"


def asked(url: str, fields: dict, place: str = "/chat/completions") -> http.client.HTTPResponse:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=20)
    headers = {"Authorization": f"Bearer {KEY}", "X-Mine": "1"}
    connection.request("POST", parts.path + place, json.dumps(fields).encode(), headers)
    return connection.getresponse()


def answer(url: str, messages: list[dict], **fields) -> dict:
    response = asked(url, {"model": "theirs", "messages": messages, "tools": TOOLS, **fields})
    assert response.status == 200
    return message_in(response.read().decode())


def converse(url: str, question: str, meet: Barrier | None = None, **fields) -> list[dict]:
    """Asks, calls the tool, asks again, and once more; drops thoughts and ids on the way, and
    writes JSON in another way. Returns what was said."""
    messages = [user("be brief"), user(question)][meet is None :]
    for reply in ("Oslo", "thanks", "Rome"):
        message = answer(url, messages, **fields)
        told = {"role": "assistant", "content": message.get("content") or ""}
        told["tool_calls"] = []
        for call in message.get("tool_calls", ()):
            arguments = json.dumps(json.loads(call["function"]["arguments"]), indent=2)
            function = {"name": call["function"]["name"], "arguments": arguments}
            told["tool_calls"].append({"id": "x", "type": "function", "function": function})
        is_call = bool(told["tool_calls"])
        after = {"role": "tool", "tool_call_id": "x", "content": reply} if is_call else user(reply)
        messages += [told if is_call else {**told, "tool_calls": None}, after]
        if meet:
            meet.wait(20)
    return messages


def lines_of(folder: Path) -> list[dict]:
    return [json.loads(file.read_text()) for file in sorted(folder.glob("*.jsonl"))]


@pytest.mark.parametrize("stream", [False, True])
def test_a_conversation_that_goes_on_is_one_log_with_the_tools_as_they_were_sent(
    recorder, tmp_path, stream
):
    converse(url_of(recorder), "17", stream=stream)
    (line,) = lines_of(tmp_path)
    assert json.dumps(line["tools"]) == json.dumps(TOOLS)
    (demo,), report = read_demos(tmp_path)
    assert not report.problems and json.dumps(demo.tools) == json.dumps(TOOLS)
    actions = [step.action for step in demo.steps]
    assert actions == [
        '{"name": "find_order", "arguments": {"number": "17"}}', "It is in Oslo\u2028now.",
        '{"name": "find_order", "arguments": {"number": "thanks"}}',
    ]  # fmt: skip
    assert [step.thought for step in demo.steps] == ["I look.", "so", "I look."]


def test_the_messages_of_a_stream_are_those_of_the_whole_answer(recorder):
    for question in ("17", "größer"):
        whole = answer(url_of(recorder), [user(question)])
        streamed = answer(url_of(recorder), [user(question)], stream=True)
        assert streamed == {key: part for key, part in whole.items() if key != "refusal"}


@pytest.mark.parametrize("stream", [False, True])
def test_conversations_at_the_same_time_do_not_mix(recorder, tmp_path, stream):
    """Two begin with the same words, one with others."""
    meet = Barrier(3)
    said = {}

    def run(number: int) -> None:
        question = ["17", "17", "18"][number]
        said[number] = converse(url_of(recorder), question, meet, stream=stream)

    threads = [Thread(target=run, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    lines = lines_of(tmp_path)
    assert len(lines) == 3 == len(said)
    assert sorted(line["messages"][1]["content"] for line in lines) == ["17", "17", "18"]
    assert [len(line["messages"]) for line in lines] == [7, 7, 7]


def test_an_edited_history_and_other_tools_begin_another_log(recorder, tmp_path):
    url = url_of(recorder)
    first = answer(url, [user("17")])
    first["tool_calls"][0]["function"]["arguments"] = '{"number": "18"}'
    after = {"role": "tool", "tool_call_id": "call_7", "content": "Oslo"}
    answer(url, [user("17"), first, after])
    assert len(lines_of(tmp_path)) == 2
    answer(url, [user("17"), first, after, message_to(after), user("and 19?")], tools=[])
    assert len(lines_of(tmp_path)) == 3


def test_what_no_log_can_be_made_of_is_written_as_it_was_sent(recorder, tmp_path):
    part = {"type": "strange", "of": "theirs"}
    answer(url_of(recorder), [{"role": "user", "content": [part]}])
    (line,) = lines_of(tmp_path)
    assert line["messages"][0]["content"] == [part]


def test_the_key_and_other_headers_reach_the_api_and_no_file(recorder, api, tmp_path, capsys):
    converse(url_of(recorder), "17")
    for _, headers, _ in api.asked:
        assert headers["Authorization"] == f"Bearer {KEY}" and headers["X-Mine"] == "1"
        assert headers["Host"] == f"127.0.0.1:{api.server_port}"
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert files and not any(KEY in file.read_text() for file in files)
    told = capsys.readouterr()
    assert KEY not in told.out + told.err


def test_the_body_reaches_the_api_to_the_byte_and_the_query_too(recorder, api):
    fields = {"messages": [user("17")], "temperature": 0.3, "unheard_of": [1]}
    assert asked(url_of(recorder), fields, "/chat/completions?api-version=2").status == 200
    ((path, _, body),) = api.asked
    assert path == "/v9/chat/completions?api-version=2" and body == json.dumps(fields).encode()


def test_errors_of_the_api_pass_unchanged_and_are_no_logs(recorder, tmp_path):
    response = asked(url_of(recorder), {"messages": [user("too often")]})
    assert response.status == 429
    assert response.read() == b'{"error": {"message": "slowly",\n "code": 7}}'
    assert response.headers["Retry-After"] == "3" and response.headers["X-Request-Id"] == "9"
    assert not lines_of(tmp_path)


def test_a_redirect_goes_back_and_the_key_nowhere_else(recorder, api):
    response = asked(url_of(recorder), {"messages": [user("elsewhere")]})
    assert response.status == 302 and len(api.asked) == 1


def test_an_api_that_is_not_there_is_an_error_that_names_it(tmp_path):
    recorder = Recorder("http://127.0.0.1:9/v1", tmp_path, 0)
    response = asked(url_of(recorder), {"messages": [user("17")]})
    message = json.loads(response.read())["error"]["message"]
    assert response.status == 502 and "http://127.0.0.1:9/v1 does not answer" in message
    recorder.close()


def test_a_stream_passes_as_it_comes(recorder, api):
    response = asked(url_of(recorder), {"messages": [user("wait")], "stream": True})
    assert response.readline().startswith(b": a comment")  # the API has not ended yet
    api.go_on.set()
    assert b"[DONE]" in response.read()


def test_a_stream_that_breaks_is_no_log(recorder, tmp_path, capsys):
    response = asked(url_of(recorder), {"messages": [user("broken")], "stream": True})
    assert b"[DONE]" not in response.read()
    assert not lines_of(tmp_path)
    assert "the stream ended before the answer did" in capsys.readouterr().err


def stream_of(*deltas: dict, end: str = "data: [DONE]\n\n", **last) -> str:
    """A stream as it is written, with a reason to finish in its last event."""
    events = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], **last})
    return "".join(f"data: {json.dumps(event)}\r\n\r\n" for event in events) + end


def piece(name: str, arguments: str, **fields) -> dict:
    return {"function": {"name": name, "arguments": arguments}, **fields}


NONE = {"index": None}


@pytest.mark.parametrize(("one", "other"), [
    ({}, {}), ({"index": 0}, {"index": 0}), ({"index": 1}, {"index": 2}), (NONE, NONE),
])  # fmt: skip
def test_calls_stay_apart_however_an_api_numbers_them(one, other):
    calls = [piece("find", '{"n": 1}', id="a", **one), piece("find", '{"n": 2}', id="b", **other)]
    for deltas in ([{"tool_calls": calls}], [{"tool_calls": [call]} for call in calls]):
        message = message_in(stream_of(*deltas))
        assert message["tool_calls"] == [
            {"type": "function", "id": name, "function": {"name": "find", "arguments": said}}
            for name, said in (("a", '{"n": 1}'), ("b", '{"n": 2}'))
        ]


def test_a_stream_is_whole_where_it_says_so_in_either_way():
    assert message_in(stream_of({"content": "yes"}, end=""))["content"] == "yes"
    broken = 'data: {"choices": [{"index": 0, "delta": {"content": "ye"}}]}\n\n'
    with pytest.raises(ValueError, match="ended before the answer"):
        message_in(broken)
    with pytest.raises(ValueError, match="broke off"):
        message_in(stream_of({"content": "ye"}, error={"message": "out of memory"}))


def test_an_answer_that_is_cut_has_no_end_for_the_agent_either(recorder, tmp_path, capsys):
    response = asked(url_of(recorder), {"messages": [user("cut")]})
    with pytest.raises(http.client.IncompleteRead):
        response.read()
    assert not lines_of(tmp_path) and "not recorded" in capsys.readouterr().err


def test_what_no_conversation_can_go_on_from_is_let_go(recorder, tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "KEPT", 2)
    converse(url_of(recorder), "17")
    assert len(recorder.ends) == 1  # three turns are one place
    for question in ("18", "19", "20"):
        answer(url_of(recorder), [user(question)])
    assert len(recorder.ends) == 2 and len(lines_of(tmp_path)) == 4
    for _ in range(5):  # as a monitor asks, the same each time
        answer(url_of(recorder), [user("21")])
    assert sum(map(len, recorder.ends.values())) == 2 and len(lines_of(tmp_path)) == 9


def test_models_are_those_of_the_api_and_other_places_are_not_served(recorder):
    parts = urlsplit(url_of(recorder))
    connection = http.client.HTTPConnection(parts.netloc, timeout=20)
    connection.request("GET", "/v1/models")
    assert json.loads(connection.getresponse().read())["data"] == [{"id": "theirs"}]
    for talk in ("/responses", "/messages", "/completions"):
        response = asked(url_of(recorder), {}, talk)
        assert response.status == 404 and b"use /v1/chat/completions" in response.read()


def test_what_is_no_conversation_passes_and_is_not_kept(recorder, tmp_path):
    """An agent that searches asks the same address for embeddings."""
    response = asked(url_of(recorder), {"input": "a"}, "/embeddings")
    assert response.status == 200 and response.read() == b'{"data": []}'
    assert not [*tmp_path.rglob("*.jsonl")]


@pytest.mark.parametrize("reason", ["stop", "length", "content_filter"])
def test_an_answer_that_was_cut_off_says_so_in_the_log(reason):
    message = {"role": "assistant", "content": "It is in"}
    whole = {"choices": [{"index": 0, "message": message, "finish_reason": reason}]}
    delta = {"choices": [{"index": 0, "delta": message, "finish_reason": None}]}
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    stream = f"data: {json.dumps(delta)}\n\ndata: {json.dumps(end)}\n\ndata: [DONE]\n\n"
    mark = {} if reason == "stop" else {"finish_reason": reason}
    for answered in (json.dumps(whole), stream):
        assert message_in(answered) == message | mark


@pytest.mark.slow
@pytest.mark.extras
def test_the_client_of_openai_sees_no_difference(recorder, tmp_path):
    openai = pytest.importorskip("openai", reason='needs the extra: pip install ".[agents]"')
    client = openai.OpenAI(base_url=url_of(recorder), api_key=KEY, max_retries=0)
    spoken = {"model": "theirs", "messages": [user("17")], "tools": TOOLS}
    message = client.chat.completions.create(**spoken).choices[0].message
    assert message.tool_calls[0].function.arguments == '{"number": "17"}'
    text = ""
    spoken["messages"] += [message.model_dump(exclude_none=True), {
        "role": "tool", "tool_call_id": "call_7", "content": "Oslo",
    }]  # fmt: skip
    for chunk in client.chat.completions.create(**spoken, stream=True):
        text += (chunk.choices and chunk.choices[0].delta.content) or ""
    assert text == "It is in Oslo\u2028now."
    with pytest.raises(openai.RateLimitError, match="slowly"):
        client.chat.completions.create(model="theirs", messages=[user("too often")])
    (line,) = lines_of(tmp_path)
    roles = [message["role"] for message in line["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant"]


@pytest.mark.slow
def test_the_command_records_until_ctrl_c(api, tmp_path):
    to = f"http://127.0.0.1:{api.server_port}/v9"
    command = [sys.executable, "-m", "minprm", "record", "--to", to, "--out", "r", "--port", "0"]
    program = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        url = program.stdout.readline().split()[0]
        converse(url, "17")
        program.send_signal(signal.SIGINT)
        told, errors = program.communicate(timeout=30)
    finally:
        program.kill()
    assert program.returncode == 130 and not errors
    assert told == "conversations: 1; read them: minprm logs r\n"


def test_the_logs_of_it_are_read_by_the_command_for_logs(recorder, tmp_path, capsys):
    converse(url_of(recorder), "17")
    logs([str(tmp_path)])
    assert "1 of 1 tasks, in 1 file" in capsys.readouterr().out


@pytest.mark.parametrize(("flags", "says"), [
    ("", "--to"), ("--to api.openai.com", "base URL"), ("--to https://me:key@a.b/v1", "base URL"),
    ("--to https://a.b/v1?key=k", "base URL"), ("--to https://:key@a.b/v1", "base URL"),
    ("--to http://[", "base URL"), ("--to https://a.b:abc", "base URL"),
    ("--to https://a.b --port 70000", "--port 70000"),
    ("--to https://a.b --out {file}", "choose others"),
])  # fmt: skip
def test_flags_that_cannot_be_meant_are_refused(tmp_path, capsys, flags, says):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(SystemExit) as stop:
        record.main(flags.format(file=file).split())
    assert stop.value.code == 2 and says in capsys.readouterr().err
