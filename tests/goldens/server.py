"""The parts that are asked over HTTP."""

# ruff: noqa: E501 - tables of commands
import hashlib
import http.client
import json
import re
import select
import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.goldens.run import Part, masked, say, start_command

REQUESTS = """
GET /healthz
GET /readyz
HEAD /healthz
GET /openapi.json
GET /metrics
GET /v1/model
GET /v1/columns
GET /v1/images
GET /v1/images?limit=2&offset=3
GET "/v1/images?where=age > 60 and sex = 'F'&limit=3"
GET "/v1/images?where=age >"
GET /v1/images?limit=1000
GET /v1/images/images/s000001.png
GET /v1/images/images/s000001.png/rendered
GET /v1/images/images/s000001.png/rendered?size=32
GET /v1/images/images/s000001.png/rendered?size=9999999
GET /v1/images/none
GET /v1/none
GET /none
PUT /v1/images
GET /v1/classify
GET /v1/model Host:example.org
GET /v1/model Origin:https://example.org
POST /v1/classify image_id=images/s000001.png Origin:https://example.org
POST /v1/classify image=@png
POST /v1/classify image=@dicom
POST /v1/classify image_id=images/s000001.png
POST /v1/classify image_id=none
POST /v1/classify image=@png image_id=images/s000001.png
POST /v1/classify image=@text
POST /v1/classify image=@cut
POST /v1/classify image=@empty
POST /v1/classify
POST /v1/classify json:{}
POST /v1/classify image=@png 'prompts={"Fracture":{"positive":["Fracture."],"negative":["None."]}}'
POST /v1/classify image=@png 'prompts={"Fracture":1}'
POST /v1/classify image=@png unknown=1
POST /v1/classify Content-Type:multipart/form-data
POST /v1/ground image=@png 'sentence=Left pleural effusion.'
POST /v1/ground image=@png 'sentence=Left pleural effusion.' threshold=0.2 Accept:image/png
POST /v1/ground image_id=images/s000002.png sentence=Edema. Accept:text/plain
POST /v1/ground image=@png
POST /v1/ground image=@png sentence=... threshold=x
POST /v1/verify image=@png 'report=FINDINGS: Clear lungs. No edema. IMPRESSION: Left effusion.'
POST /v1/verify image_id=images/s000004.png 'report=Cardiomegaly.' threshold=0.1
POST /v1/verify image=@png report=
POST /v1/render image=@png size=32
POST /v1/render image=@dicom
POST /v1/search query=Edema. k=3
POST /v1/search query=Edema. k=3 offset=3 mode=exact min_score=-1 unique=patient
POST /v1/search query=Edema. query=Effusion. not=Fracture. k=2 mode=fast
POST /v1/search query=Edema. image=@png image_weight=0.3 k=2
POST /v1/search image=@dicom k=2
POST /v1/search image_id=images/s000003.png other_patients=true k=2
POST /v1/search query=Edema. 'where=age > 60' exclude_patient=p000001 k=2
POST /v1/search query=Edema. 'where=none = 1'
POST /v1/search query=Edema. target=sentences k=3
POST /v1/search image_id=images/s000003.png target=sentences k=3 'where=age > 60'
POST /v1/search query=Edema. k=5 Accept:text/csv
POST /v1/search query=Edema. k=0
POST /v1/search query=Edema. mode=none
POST /v1/search k=3
POST /v1/search query=
POST /v1/search/export query=Edema. 'where=age > 60'
POST /v1/search/export query=Edema. unique=patient
POST /v1/search/export query=
POST /v1/score-text 'json:{"sentences":["The lungs are clear.","Xyzzy."]}'
POST /v1/score-text 'json:{"sentences":["No edema."],"a":0.5,"k":0.1}'
POST /v1/score-text 'json:{"sentences":[]}'
POST /v1/score-text 'json:{"sentences":["x"],"a":2}'
POST /v1/score-text json:{
POST /v1/score-text sentences=x
POST /v1/images image=@new image_id=new/a.png study_id=n1 patient_id=q1 split=val 'metadata={"age":61}' 'report=FINDINGS: Left effusion.'
POST /v1/images image=@new image_id=new/b.png
POST /v1/images image=@new image_id=new/a.png replace=true study_id=n1
POST /v1/images image=@new image_id=../b.png
POST /v1/images image=@png metadata=[]
POST /v1/images image=@text
GET /v1/images/new/a.png
POST /v1/search image_id=new/a.png k=2
DELETE /v1/images/new/a.png
DELETE /v1/images/new/a.png
DELETE /v1/images?image_id=images/s000001.png&study_id=s000002
DELETE /v1/images?study_id=none
DELETE /v1/images
GET /v1/images?limit=1
"""
KEYED = """
GET /healthz
GET /v1/model
GET /v1/model Authorization:WRONG
GET /v1/model Authorization:READ
GET /v1/model Authorization:WRITE
GET /v1/model Authorization:METRICS
GET /metrics
GET /metrics Authorization:METRICS
POST /v1/images image=@new Authorization:READ
POST /v1/images image=@new image_id=w.png Authorization:WRITE
DELETE /v1/images/w.png Authorization:READ
POST /v1/classify image=@large Authorization:READ
POST /v1/classify image=@png Authorization:READ
POST /v1/score-text 'json:{"sentences":["x"]}' Authorization:READ
GET /v1/model Authorization:READ Origin:https://other.example
OPTIONS /v1/model Origin:https://site.example Access-Control-Request-Method:GET
GET /v1/model Authorization:READ Host:archive.example.org
GET /v1/model Authorization:READ Host:evil.example.org
"""


SLOWEST_S = 300
"""Seconds to wait for a server on a busy machine."""


@contextmanager
def serving(run: Part, line: str, **more: str) -> Iterator[int]:
    """A server; gives its port, and writes down at the end what it said."""
    server = start_command(run, "serve", *shlex.split(line), "--port", "0", **more)
    assert server.stdout is not None
    try:
        first: list[str] = []
        while not first or "serving at" not in first[-1]:
            if not select.select([server.stdout], [], [], SLOWEST_S)[0]:
                break
            if not (read := server.stdout.readline()):
                break
            first.append(read)
        yield int(first[-1].rpartition(":")[2])
    finally:
        server.send_signal(signal.SIGTERM)
        out, err = server.communicate(timeout=SLOWEST_S)
        lines = masked(f"{''.join(first)}{out}---\n{err}", run.work).splitlines()
        run.note(
            f"serve {line} -> {server.returncode}", "\n".join(one for one, _ in groupby(lines))
        )


def body_of(fields: list[tuple[str, str]], files: dict[str, bytes]) -> tuple[bytes, str]:
    if not any(value[:1] == "@" for _, value in fields):
        return urlencode(fields).encode(), "application/x-www-form-urlencoded"
    body = b""
    for name, value in fields:
        body += f'--cut\r\nContent-Disposition: form-data; name="{name}"'.encode()
        if value[:1] == "@":
            body += b'; filename="x"\r\n\r\n' + files[value[1:]] + b"\r\n"
        else:
            body += b"\r\n\r\n" + value.encode() + b"\r\n"
    return body + b"--cut--\r\n", "multipart/form-data; boundary=cut"


def send(
    run: Part,
    port: int,
    line: str,
    files: dict[str, bytes],
    keys: dict[str, str],
    only: int | None = None,
) -> int:
    """Send one request of a table, and write down what it came to, or only what has a status."""
    method, path, *words = shlex.split(line)
    headers, fields, body = {}, [], None
    for word in words:
        if word.startswith("json:"):
            body, headers["Content-Type"] = word[5:].encode(), "application/json"
        elif re.match(r"[A-Z][\w-]+:", word):
            name, _, value = word.partition(":")
            headers[name] = f"Bearer {keys[value]}" if name == "Authorization" else value
        else:
            name, _, value = word.partition("=")
            fields.append((name, value))
    if fields:
        body, headers["Content-Type"] = body_of(fields, files)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SLOWEST_S)
    try:
        connection.request(method, path.replace(" ", "%20"), body, headers)
        answer = connection.getresponse()
        content = answer.read()
    except OSError as error:
        run.note(line, type(error).__name__)
        return 0
    finally:
        connection.close()
    kind = answer.headers.get("content-type", "")
    names = ", ".join(sorted(name.lower() for name in answer.headers))
    if "json" in kind and content:
        said = json.dumps(json.loads(content), indent=1, ensure_ascii=False)
    elif path == "/metrics" and answer.status == 200:
        lines = content.decode().splitlines()
        said = "\n".join(one for one in lines if re.match(r"# (HELP|TYPE)", one))
    elif kind.startswith("text/csv") or (len(content) < 200 and kind.startswith("text")):
        said = content.decode()
    else:
        said = f"{len(content)} bytes, {hashlib.sha256(content).hexdigest()[:16]}"
    if only in (None, answer.status):
        run.note(line, f"{answer.status} {kind}\n{names}\n{said}")
    return answer.status


def files_to_send(run: Part) -> dict[str, bytes]:
    run(
        "phantom other --studies 2 --size 80 --seed 77\nphantom dicom --studies 2 --size 80 --seed 78 --format dicom"
    )
    first = (run.work / "base/data/images/s000001.png").read_bytes()
    return {
        "png": first, "cut": first[:200], "text": b"text", "empty": b"", "large": b"0" * 1_200_000,
        "new": (run.folder / "other/images/s000001.png").read_bytes(),
        "dicom": (run.folder / "dicom/images/s000001.dcm").read_bytes(),
    }  # fmt: skip


def http_api(run: Part) -> None:
    """Every route of the server, with what is right and what is wrong; the client in Python."""
    run.copy("index")
    files = files_to_send(run)
    line = "--index index --language-model ../base/lm --model ../base/run/checkpoint --uploads up"
    with serving(run, line) as port:
        run.forked(partial(client_calls, port), "the client")
        for one in REQUESTS.strip().splitlines():
            send(run, port, one, files, {})


def http_keys(run: Part) -> None:
    """A server with keys, without an index; the files of the page."""
    files = files_to_send(run)
    keys = {"WRONG": "0123456789abcdefghij"}
    for name, scopes in (("READ", "read"), ("WRITE", "write"), ("METRICS", "metrics")):
        line = f"keys add keys.txt {name} --scope {scopes} --expires 2099-12-31"
        key, said = run.start(line).result()[1:]
        keys[name] = key.strip()
        run.note(line, f"{len(keys[name])} characters\n{said}")
    run("keys list keys.txt\nkeys list keys.txt --json")
    line = "--model ../base/run/checkpoint --max-megabytes 1 --no-metrics --log-format json --prompts ../base/prompts.yaml"
    with serving(run, line, CXRTEXT_API_KEYS_FILE="keys.txt") as port:
        for one in KEYED.strip().splitlines():
            send(run, port, one, files, keys)
    run.copy("index")
    line = "--index index --uploads up --trusted-host archive.example.org --audit-log audit.log"
    line += " --cors-origin https://site.example --rate-limit 60"
    with serving(run, line, CXRTEXT_API_KEYS_FILE="keys.txt") as port:
        for one in KEYED.strip().splitlines():
            send(run, port, one, files, keys)
        for _ in range(300):  # until it is too often
            if send(run, port, "GET /v1/model Authorization:READ", files, keys, 429) == 429:
                break
    audited = masked((run.folder / "audit.log").read_text("utf-8"), run.work).splitlines()
    run.note("audit.log", "\n".join(one for one, _ in groupby(audited)))
    run("keys revoke keys.txt READ\nkeys revoke keys.txt none")


def page(run: Part) -> None:
    """The files of the page."""
    with serving(run, "--model ../base/run/checkpoint") as port:
        names = re.findall(r"/web/[\w.-]+", "")
        seen, waiting = set(), ["/", "/docs"]
        while waiting:
            path = waiting.pop(0)
            seen.add(path)
            send(run, port, f"GET {path}", {}, {})
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SLOWEST_S)
            connection.request("GET", path)
            content = connection.getresponse().read().decode("utf-8", "replace")
            names = [
                f"/web/{one}" for one in re.findall(r"""["(/]([\w-]+\.(?:js|css|svg))""", content)
            ]
            waiting += sorted({one for one in names if one not in seen and one not in waiting})


def client_calls(port: int) -> None:
    from cxrtext.client import ApiError, Client, ImageId

    image = Path("../base/data/images/s000001.png")
    known = ImageId("images/s000002.png")
    with Client(f"http://127.0.0.1:{port}") as client:
        calls: list[Callable[[], Any]] = [
            client.ready,
            client.model,
            client.columns,
            partial(client.classify, image),
            partial(client.classify, known),
            partial(client.ground, image, "Left pleural effusion."),
            partial(client.verify, known, "FINDINGS: The heart is normal. IMPRESSION: No edema."),
            partial(client.search, "Edema.", k=2, where="age > 40", unique="patient"),
            partial(client.search, image=known, other_patients=True, k=2),
            partial(client.search_sentences, "Edema.", k=2),
            partial(client.cohort, "Edema.", k=3),
            partial(client.score_text, ["The lungs are clear."]),
            partial(client.page, 2, 2),
            lambda: [one.image_id for one in client.images("age > 70")],
            partial(client.image, "images/s000003.png"),
            partial(client.image, "none"),
            lambda: len(client.picture("images/s000003.png", 32)),
            lambda: len(client.ground_png(image, "Edema.")),
            lambda: len(client.render(image)),
            partial(client.search, "..."),
            partial(client.classify, Path("none.png")),
        ]
        for call in calls:
            name = getattr(getattr(call, "func", call), "__name__", "")
            try:
                say(f"{name}: {call()!r}")
            except Exception as error:  # noqa: BLE001 - its kind and words are what is looked at
                say(
                    f"{name}: {type(error).__name__}: {re.sub('request [^]]*', 'request ID', str(error))}"
                )
    say(str(issubclass(ApiError, Exception)))
