"""Several services searched as one: as one archive of their folders, also without one of them."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
import torch
import uvicorn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from starlette.requests import Request
from starlette.responses import JSONResponse

from cxrtext.client.models import ModelInfo
from cxrtext.errors import ConfigError, InputError, NotFoundError, UnavailableError
from cxrtext.index import Archive, Query, delete, open_index
from cxrtext.index.changes import set_attributes
from cxrtext.index.store.writer import writing
from cxrtext.models import ImageTextModel
from cxrtext.pausing import Pausing, finish
from cxrtext.service import Service
from cxrtext.shards import calls as shard_calls
from cxrtext.shards import protocol as p
from cxrtext.shards.answering import Answering
from cxrtext.shards.archive import _Search
from cxrtext.shards.asking import Asking
from cxrtext.shards.calls import Missing, ShardCalls
from cxrtext.shards.config import ShardAddress, ShardList, read_shards
from cxrtext.shards.forms import vectors_of
from cxrtext.shards.service import ShardsService
from cxrtext_api.app import create_app
from cxrtext_api.gate.keys import hash_key, new_key
from cxrtext_api.settings import Settings

# FastAPI silences this by what is no thread's own; here are several servers in one process.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pydantic.warnings.UnsupportedFieldAttributeWarning"
)

NAMES = ("a", "b", "c", "d")
QUICK = {"deadline_s": 5.0, "probe_s": 0.1}


class Served:
    """An application on a port of its own, which can be stopped and started again."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        config = uvicorn.Config(
            self._make(), port=self.port, log_level="critical", lifespan="on", ws="none"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        until(lambda: httpx2.get(f"{self.url}/readyz").status_code == 200)

    def stop(self) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(10)


def until(holds: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if holds():
                return
        except httpx2.HTTPError:
            pass
        time.sleep(0.02)
    raise AssertionError("did not come to hold in time")


@pytest.fixture(scope="module")
def folders(
    make_archive: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> list[Path]:
    """Four indexes: patients are in all of them, and the pictures of the last in the first."""
    root = tmp_path_factory.mktemp("shards")
    sizes = ((80, 0), (81, 1), (82, 2), (80, 0))
    return [
        make_archive(root / name, count, seed=seed, prefix=name)
        for name, (count, seed) in zip(NAMES, sizes, strict=True)
    ]


@pytest.fixture(scope="module")
def whole(folders: list[Path], model: ImageTextModel) -> Iterator[Archive]:
    with open_index(folders, model) as archive:
        yield archive


def app_of(folder: Path, model: ImageTextModel) -> Callable[[], Any]:
    return lambda: create_app(
        Settings(rate_limit=0), lambda _: Service(model, open_index(folder, model))
    )


@pytest.fixture(scope="module")
def served(folders: list[Path], model: ImageTextModel) -> Iterator[list[Served]]:
    shards = [Served(app_of(folder, model)) for folder in folders]
    yield shards
    for shard in shards:
        shard.stop()


@contextmanager
def front_of(
    model: ImageTextModel, *urls: str | tuple[str, ...], require_all: bool = False, **given: Any
) -> Iterator[ShardsService]:
    addresses = tuple(
        ShardAddress(name, (url,) if isinstance(url, str) else url)
        for name, url in zip(NAMES, urls, strict=False)
    )
    calls = ShardCalls(ShardList(addresses, **{**QUICK, **given}), model.fingerprint)
    service = ShardsService(model, calls, require_all=require_all)
    try:
        yield service
    finally:
        service.close()


@pytest.fixture(scope="module")
def front(model: ImageTextModel, served: list[Served]) -> Iterator[ShardsService]:
    with front_of(model, *(shard.url for shard in served), deadline_s=60.0) as service:
        yield service


@contextmanager
def asked_over_http(service: ShardsService) -> Iterator[httpx2.Client]:
    app = create_app(Settings(shards=Path("shards.yaml"), rate_limit=0), lambda _: service)
    server = Served(lambda: app)
    try:
        with httpx2.Client(base_url=server.url, timeout=60) as client:
            yield client
    finally:
        server.stop()


WHERE = (None, None, "age > 40", "sex = 'F' and not note is null", "image = 'b3.png'", "age > 999")


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_shards_give_what_one_archive_of_their_folders_gives(
    data: st.DataObject, front: ShardsService, whole: Archive
) -> None:
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**31)))
    wide = front.model.spec.dimension

    def vectors(count: int) -> torch.Tensor | None:
        if not count:
            return None
        return torch.nn.functional.normalize(torch.randn(count, wide, generator=generator), dim=-1)

    texts = vectors(data.draw(st.integers(0, 3)))
    image = vectors(1) if texts is None or data.draw(st.booleans()) else None
    query = Query(
        texts,
        vectors(data.draw(st.integers(0, 1))) if texts is not None else None,
        None if image is None else image[0],
    )
    options: dict[str, Any] = {
        "where": data.draw(st.sampled_from(WHERE)),
        "offset": data.draw(st.sampled_from([0, 0, 1, 7, 60, 400])),
        "unique": data.draw(st.sampled_from([None, "patient", "study", "picture"])),
        "min_score": data.draw(st.sampled_from([None, None, -0.1, 0.1])),
        "exclude_patients": data.draw(st.sampled_from([(), ("p0", "p3")])),
        "mode": data.draw(st.sampled_from(["auto", "exact", "fast"])),
    }
    k = data.draw(st.sampled_from([1, 5, 30, 330]))
    asked = front.for_question()
    found, expected = asked.search(query, k, **options), whole.search(query, k, **options)
    assert asked.coverage.header == "4/4"
    assert (found.images, found.exact) == (expected.images, expected.exact)
    named = [(hit.image.image, round(hit.score, 5)) for hit in found.hits]
    assert named == [(hit.image.image, round(hit.score, 5)) for hit in expected.hits]
    for hit, other in zip(found.hits, expected.hits, strict=True):
        assert hit.labels == other.labels
        assert hit.unlike == other.unlike
        assert dict(hit.image.metadata) == dict(other.image.metadata)
        assert (hit.image.study_id, hit.image.split) == (other.image.study_id, other.image.split)


def cohort_of(archive: Archive, query: Query, **options: Any) -> list[tuple[str, float]]:
    cohort = archive.cohort(query, **options)
    for steps in (cohort.select(), cohort.score(), cohort.rank()):
        for _ in steps:
            pass
    hits = [hit for start in cohort.pages for hit in cohort.hits(start)]
    assert len(hits) == len(cohort)
    return [(hit.image.image, round(hit.score, 5)) for hit in hits]


@pytest.mark.parametrize("unique", [None, "patient", "picture"])
def test_a_cohort_of_shards_is_that_of_one_archive(
    front: ShardsService, whole: Archive, unique: str | None
) -> None:
    query = Query(front.embed_sentences(["Left pleural effusion."]))
    options = {"where": "age > 25", "min_score": -0.2, "unique": unique}
    found = cohort_of(front.for_question().archive, query, **options)
    assert found == cohort_of(whole, query, **options)
    assert len(found) > 10


def test_sentences_pages_and_columns_are_those_of_one_archive(
    front: ShardsService, whole: Archive
) -> None:
    shards = front.for_question().archive
    regions = torch.randn(16, 16, generator=torch.Generator().manual_seed(5))
    for asked in ({"image": regions}, {"text": front.embed_sentences(["Clear lungs."])[0]}):
        for options in ({}, {"where": "age > 60"}, {"min_score": -1.0, "offset": 1}):
            found = finish(shards.search_sentences_pausing(3, **asked, **options))  # type: ignore[arg-type]
            expected = finish(whole.search_sentences_pausing(3, **asked, **options))  # type: ignore[arg-type]
            assert len(found) == len(expected) > 1
            for hit, other in zip(found, expected, strict=True):
                assert (hit.sentence, hit.studies) == (other.sentence, other.studies)
                assert hit.score == pytest.approx(other.score, abs=1e-5)
                assert hit.lift == (other.lift and pytest.approx(other.lift, abs=1e-4))
    for offset, limit, where in ((0, 3, None), (75, 100, "age > 25"), (300, 200, None)):
        images, total = finish(shards.page(offset, limit, where))
        others, all_of_them = finish(whole.page(offset, limit, where))
        assert total == all_of_them
        assert [image.image for image in images] == [image.image for image in others]
    assert shards.columns() == whole.columns()
    assert (shards.images, shards.sentences) == (whole.images, whole.sentences)
    assert shards.is_unlike(-regions) == whole.is_unlike(-regions)


def test_an_image_is_found_in_the_shard_that_has_it(front: ShardsService, whole: Archive) -> None:
    part, image = whole.find("c7.png")
    asked = front.for_question()
    assert asked.find_image("c7.png").study_id == image.study_id
    assert torch.equal(asked.embedded("c7.png").regions, part.regions(image.number))
    with pytest.raises(NotFoundError):
        asked.find_image("z1.png")
    with pytest.raises(InputError, match="no such column"):
        asked.search(Query(front.embed_sentences(["A."])), where="nowhere = 1")


def nonsense(kind: str) -> Callable[[], Any]:
    """An application that is ready and answers otherwise than a shard."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while (await receive())["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        body = await Request(scope, receive).body()
        if scope["path"] == "/readyz":
            answer = JSONResponse({})
        elif kind == "slow":
            import asyncio

            await asyncio.sleep(30)
            answer = JSONResponse({})
        elif kind == "other model":
            asked = json.loads(body or b"{}")
            part = {"model": "0" * 64, "scores": [], "rows": [], "matching": 0, "scored": 0}
            answer = JSONResponse({**part, "exact": True, "more": False} if asked else {})
        else:
            answer = JSONResponse({"model": 3, "scores": ["a"]})
        await answer(scope, receive, send)

    return lambda: app


@pytest.mark.parametrize("kind", ["down", "slow", "other model", "nonsense"])
def test_a_bad_shard_is_said_and_the_others_answer(
    kind: str, served: list[Served], folders: list[Path], model: ImageTextModel
) -> None:
    with ExitStack() as stack:
        if kind == "down":
            url = "http://127.0.0.1:9"
        else:
            bad = Served(nonsense(kind))
            stack.callback(bad.stop)
            url = bad.url
        urls = (served[0].url, url, served[2].url)
        given: dict[str, Any] = {"deadline_s": 2.0, "probe_s": 60.0}
        front = stack.enter_context(front_of(model, *urls, **given))
        strict = stack.enter_context(front_of(model, *urls, require_all=True, **given))
        rest = stack.enter_context(open_index([folders[0], folders[2]], model))
        query = Query(model.embed_sentences(["Left pleural effusion."]))
        asked = front.for_question()
        begun = time.monotonic()
        found = asked.search(query, 20)
        assert time.monotonic() - begun < 4
        expected = rest.search(query, 20)
        assert [hit.image.image for hit in found.hits] == [h.image.image for h in expected.hits]
        assert not found.exact
        assert asked.coverage.header == "2/3; missing=b"
        assert asked.coverage.sentence == "2 of 3 shards answered; missing: b."
        with pytest.raises(UnavailableError, match="2 of 3 shards answered; missing: b"):
            strict.for_question().search(query, 20)
        with pytest.raises(UnavailableError, match="None of those that did holds"):
            front.for_question().find_image("b1.png")
        assert front.for_question().find_image("a1.png").image == "a1.png"


def test_a_replica_stands_in_and_a_slow_one_is_overtaken(
    served: list[Served], model: ImageTextModel
) -> None:
    query = Query(model.embed_sentences(["Left pleural effusion."]))
    slow = Served(nonsense("slow"))
    pairs = (("http://127.0.0.1:9", served[0].url), (slow.url, served[1].url))
    try:
        with front_of(model, *pairs, deadline_s=20.0, hedge_s=0.2) as front:
            for _ in range(4):
                asked = front.for_question()
                begun = time.monotonic()
                asked.search(query, 5)
                assert asked.coverage.header == "2/2"
                assert time.monotonic() - begun < 10
    finally:
        slow.stop()


def test_after_slow_questions_a_second_replica_is_still_asked_in_time(
    served: list[Served], model: ImageTextModel
) -> None:
    slow = Served(nonsense("slow"))
    query = Query(model.embed_sentences(["Left pleural effusion."]))
    try:
        for hedge_s in (None, 60.0):
            pair = (served[0].url, slow.url)  # the second one is the first to be asked
            with front_of(model, pair, deadline_s=3.0, probe_s=60.0, hedge_s=hedge_s) as front:
                (shard,) = front.calls.shards
                shard._seconds = 100.0  # an export
                asked = front.for_question()
                assert asked.search(query, 5).hits
                assert asked.coverage.header == "1/1"
    finally:
        slow.stop()


def test_a_replica_that_was_never_asked_is_not_taken_for_lost(model: ImageTextModel) -> None:
    replicas = ("http://127.0.0.1:7", "http://127.0.0.1:8")
    calls = ShardCalls(
        ShardList((ShardAddress("a", replicas),), probe_s=3600.0, deadline_s=0.5), model.fingerprint
    )

    class Silent:
        is_up, url = True, ""

        def __init__(self) -> None:
            self.asked = 0

        async def ask(self, *_: Any) -> Any:
            self.asked += 1
            await asyncio.sleep(3600)

        async def close(self) -> None:
            pass

    (shard,) = calls.shards
    silent = [Silent(), Silent()]
    until(lambda: not shard.is_up)  # probed
    shard.replicas = silent  # type: ignore[assignment]
    shard._patience = lambda *_: 3600.0  # type: ignore[method-assign]
    try:
        answers = finish(calls.ask({0: shard_calls.Request("/v1/model", ModelInfo)}))
    finally:
        calls.close()
    assert isinstance(answers[0], Missing)
    assert sorted((one.asked, one.is_up) for one in silent) == [(0, True), (1, False)]


class Turning:
    """Shards of made-up images, of which one turns to another publication while it is asked."""

    names = ("a", "b", "c")
    shards = names

    def __init__(self, change: Callable[[list[str]], None]) -> None:
        self._ranked = {
            place: [f"{name}{i}" for i in range(100)] for place, name in enumerate("abc")
        }
        self._change = change
        self.asked = 0

    def ask(self, wanted: dict[int, Any], _seconds: float | None = None) -> Pausing[dict[int, Any]]:
        yield
        self.asked += 1
        found = {place: self._part(place, one.body) for place, one in wanted.items()}
        if self.asked == 1:
            self._change(self._ranked[0])
        return found

    def _part(self, place: int, asked: p.SearchAsked) -> p.SearchPart:
        """The first shard's images are all better than those of the others."""
        ranked = self._ranked[place]
        names = ranked[asked.skip : asked.skip + asked.take]
        rows = [
            p.Row(
                key=int(name[1:]), image_id=name, study_id=name, patient_id=name, split="test",
                width=1, height=1, metadata={},
            )
            for name in names
        ]  # fmt: skip
        scores = [1 - place / 10 - int(name[1:]) / 10_000 for name in names]
        return p.SearchPart(
            model="m", scores=scores, rows=rows, matching=len(ranked), scored=len(ranked),
            exact=True, more=len(rows) == asked.take,
        )  # fmt: skip


def nothing(_: list[str]) -> None:
    pass


@pytest.mark.parametrize(
    "change",
    [nothing, lambda ranked: ranked.insert(0, "a999"), lambda ranked: ranked.pop(0)],
    ids=["nothing", "added", "deleted"],
)
def test_a_shard_that_turns_while_hits_are_taken_gives_none_twice(
    change: Callable[[list[str]], None],
) -> None:
    calls = Turning(change)
    asking = Asking(calls, "m")  # type: ignore[arg-type]
    search = _Search(asking, Query(torch.zeros(1, 4)), 90)
    names = [hit.image.image for hit in finish(search.hits())]
    assert calls.asked == 2
    assert len(names) == len(set(names)) == 90
    assert search.is_exact == (change is nothing)
    if change is nothing:
        assert names == [f"a{i}" for i in range(90)]


def test_an_image_that_is_deleted_before_it_is_told_of_is_left_out(
    make_archive: Callable[..., Path], model: ImageTextModel, tmp_path: Path
) -> None:
    folder = make_archive(tmp_path / "index", 80)
    service = Service(model, open_index(folder, model))
    answering = Answering(service)
    query = vectors_of(Query(model.embed_sentences(["Left pleural effusion."])))
    asked = p.SearchAsked(model=model.fingerprint, query=query, take=80, means=True)
    search = service.archive.search_pausing

    def deleting(*args: Any, **options: Any) -> Any:
        found = yield from search(*args, **options)
        if len(found.hits) == 80:
            delete(folder, ["s3"])
            service.archive.search(Query(model.embed_sentences(["A."])), 1)  # sees it
        return found

    try:
        service.archive.search_pausing = deleting  # type: ignore[method-assign]
        part = finish(answering.search(asked))
    finally:
        service.close()
    assert len(part.rows) == part.matching < 80
    assert "s3" not in {row.study_id for row in part.rows}


def test_images_to_compare_by_are_chosen_anew_when_a_shard_is_back(
    folders: list[Path], served: list[Served], whole: Archive, model: ImageTextModel
) -> None:
    regions = whole.parts[0].regions(3)

    def lifts(archive: Archive) -> dict[str, float | None]:
        found = archive.search_sentences(3, image=regions)
        return {hit.sentence: hit.lift for hit in found}

    with front_of(model, *(shard.url for shard in served), deadline_s=60.0) as front:
        ask = front.calls.ask

        def lost(wanted: dict[int, Any], seconds: float | None = None) -> Any:
            answers = yield from ask(wanted, seconds)
            if all(one.path.endswith("/regions") for one in wanted.values()):
                answers[0] = Missing("did not answer in time")
            return answers

        front.calls.ask = lost  # type: ignore[assignment, method-assign]
        asked = front.for_question()
        assert lifts(asked.archive) != pytest.approx(lifts(whole))
        front.calls.ask = ask  # type: ignore[method-assign]
        assert lifts(front.for_question().archive) == pytest.approx(lifts(whole))


def test_a_column_that_one_shard_lacks_is_said_with_its_name(
    served: list[Served], model: ImageTextModel, make_archive: Callable[..., Path], tmp_path: Path
) -> None:
    folder = make_archive(tmp_path / "wide", 20, prefix="w")
    with writing(folder) as catalogue, catalogue.transaction(write=True) as database:
        set_attributes(database, [(1, {"ward": "east"})])
    wide = Served(app_of(folder, model))
    query = Query(model.embed_sentences(["A."]))
    try:
        with front_of(model, served[0].url, wide.url) as front:
            with pytest.raises(
                InputError, match=r"no such column.*\(a; the other shards take it\)"
            ):
                front.for_question().search(query, where="ward = 'east'")
            with pytest.raises(InputError) as caught:
                front.for_question().search(query, where="nowhere = 1")
            assert "other shards" not in str(caught.value)
    finally:
        wide.stop()


def test_the_api_says_which_shards_an_answer_rests_on(
    served: list[Served], folders: list[Path], model: ImageTextModel
) -> None:
    """Killed, said everywhere, back; nothing fails meanwhile."""
    lost = Served(app_of(folders[1], model))
    sentence = {"query": "Left pleural effusion."}
    try:
        with (
            front_of(model, served[0].url, lost.url) as front,
            asked_over_http(front) as client,
        ):
            found = client.post("/v1/search", data=sentence)
            assert found.headers["x-shards"] == "2/2"
            assert found.json()["shards"] == {"asked": 2, "answered": 2, "missing": []}
            assert found.json()["warning"] is None
            ready = client.get("/readyz").json()
            assert (ready["status"], ready["shards"]["answered"]) == ("ready", 2)
            lost.stop()
            gone = {"asked": 2, "answered": 1, "missing": ["b"]}
            found = client.post("/v1/search", data=sentence)
            assert found.headers["x-shards"] == "1/2; missing=b"
            said = found.json()
            assert said["shards"] == gone
            assert not said["exact"]
            assert said["warning"].startswith("1 of 2 shards answered; missing: b.")
            sentences = client.post("/v1/search", data=sentence | {"target": "sentences"}).json()
            assert (sentences["shards"], sentences["exact"]) == (gone, False)
            for path in ("/v1/images", "/v1/columns", "/v1/model"):
                assert client.get(path).json()["shards"] == gone, path
            table = client.post("/v1/search", data=sentence, headers={"Accept": "text/csv"})
            export = client.post("/v1/search/export", data=sentence)
            for text in (table.text, export.text):
                assert text.splitlines()[-1] == "# 1 of 2 shards answered; missing: b."
            assert int(export.headers["x-total"]) == len(export.text.splitlines()) - 2 == 80
            assert client.get("/v1/images/a3.png").json()["image_id"] == "a3.png"
            problem = client.get("/v1/images/b3.png")
            assert (problem.status_code, "missing: b" in problem.json()["detail"]) == (503, True)
            ready = client.get("/readyz")
            assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
            assert 'cxrtext_shard_up{shard="b"} 0.0' in client.get("/metrics").text
            for refused in (
                client.post("/v1/images", files={"image": ("x", b"x")}),
                client.delete("/v1/images/a1.png"),
            ):
                assert refused.status_code == 403
                assert "only reads" in refused.json()["detail"]
            lost.start()
            until(
                lambda: client.post("/v1/search", data=sentence).json()["shards"]["answered"] == 2
            )
            assert client.post("/v1/search", data=sentence).headers["x-shards"] == "2/2"
    finally:
        lost.stop()


def test_a_shard_takes_the_key_of_its_front_alone(
    folders: list[Path], model: ImageTextModel, tmp_path: Path
) -> None:
    keys = tmp_path / "keys.txt"
    key = new_key()
    keys.write_text(f"front read {hash_key(key)}\n")
    keys.chmod(0o600)
    own = Settings(rate_limit=0, keys_file=keys)
    shard = Served(lambda: create_app(own, lambda _: Service(model, open_index(folders[0], model))))
    query = Query(model.embed_sentences(["Left pleural effusion."]))
    try:
        for given, header in ((key, "1/1"), ("0" * 43, None), (None, None)):
            address = ShardAddress("a", (shard.url,), given)
            calls = ShardCalls(
                ShardList((address,), deadline_s=5.0, probe_s=0.1), model.fingerprint
            )
            front = ShardsService(model, calls)
            try:
                asked = front.for_question()
                if header is None:
                    with pytest.raises(UnavailableError, match="No shard"):
                        asked.search(query, 1)
                    assert calls.shards[0].why.startswith("does not take the key")
                else:
                    asked.search(query, 1)
                    assert asked.coverage.header == header
            finally:
                front.close()
    finally:
        shard.stop()


def test_an_upload_is_embedded_by_the_front_alone(
    front: ShardsService, whole: Archive, model: ImageTextModel
) -> None:
    file = BytesIO()
    pixels = np.random.default_rng(1).integers(0, 255, (40, 40)).astype(np.uint8)
    Image.fromarray(pixels).save(file, "PNG")
    upload = {"image": ("image", file.getvalue())}
    with asked_over_http(front) as client:
        found = client.post("/v1/search", files=upload, data={"k": "5"}).json()
        one = Service(model, whole)
        image = one.embed(one._readers.read_bytes(file.getvalue(), "it"))
        expected = one.search_image(image, 5)
        assert [hit["image_id"] for hit in found["images"]] == [h.image.image for h in expected]
        assert found["shards"]["answered"] == 4
        classified = client.post("/v1/classify", files=upload)
        assert classified.status_code == 200
        assert "x-shards" not in classified.headers
        by_id = client.post("/v1/search", data={"image_id": "b5.png", "other_patients": "true"})
        own = whole.find("b5.png")[1].patient_id
        assert own not in {hit["patient_id"] for hit in by_id.json()["images"]}
        grounded = client.post("/v1/ground", data={"image_id": "b5.png", "sentence": "Clear."})
        assert grounded.status_code == 200


def test_a_file_of_shards_is_read_and_what_is_wrong_is_said(tmp_path: Path) -> None:
    path = tmp_path / "shards.yaml"

    def read(text: str, **environment: str) -> ShardList:
        path.write_text(text)
        return read_shards(path, environment)

    good = "shards: [{name: a, urls: ['http://x:1/'], key_variable: KEY}]"
    assert read(good, KEY="secret").shards == (ShardAddress("a", ("http://x:1",), "secret"),)
    for text, match in (
        (good, "no key in KEY"),
        ("shards: [{name: a, urls: ['ftp://x']}]", "address is wrong"),
        ("shards: []", "shards"),
        ("shards: [{name: a, urls: ['http://x'], more: 1}]", r"shards.0.more"),
        ("shards: [{name: a, urls: ['http://x', 'http://x']}]", "twice"),
        ("shards: [{name: a, urls: ['http://x'], ca: /none}]", "no such file"),
        (": [", "not YAML"),
    ):
        with pytest.raises(ConfigError, match=match):
            read(text)
