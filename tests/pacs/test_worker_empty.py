"""Receiving before there is an archive: into an index that was made without an image."""

from pathlib import Path

import pytest

from cxrtext.errors import DataError
from cxrtext.index import make_index, rewrite
from cxrtext.pacs.inbox.queue import Inbox
from cxrtext.pacs.inbox.worker import Worker, WorkerSettings
from cxrtext.service import load_service
from tests.pacs.studies import instance, uid
from tests.pacs.test_worker import oru, outcomes, report_of


def test_an_index_begins_with_nothing(checkpoint: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    assert make_index(checkpoint, index).images == 0
    with pytest.raises(DataError, match="holds an index; name a new folder"):
        make_index(checkpoint, index)
    service = load_service(None, index)
    assert service.search(service.make_query(["Heart is large."])).hits == []
    with Inbox(tmp_path / "inbox", reserve=0) as inbox:
        with Worker(inbox, WorkerSettings(index, tmp_path / "archive", readers=1)) as worker:
            numbers = [inbox.put("RIS", oru(1, "Heart is large."), "message")]
            numbers += [inbox.put("PACS", instance(number)) for number in (1, 2)]
            worker.drain()
            numbers += [inbox.put("PACS", instance(3)), inbox.put("PACS", instance(1))]
            worker.drain()
        found = [outcome for outcome, _ in outcomes(inbox, numbers)]
    assert found == ["report", "added", "added", "added", "again"]
    assert report_of(index, 1) == ["Heart is large."]
    rewrite(index, rebuild=True)
    service = load_service(None, index)
    hits = service.search(service.make_query(["Heart is large."])).hits
    assert {hit.image.image for hit in hits} == {uid(number, 1, 1) for number in (1, 2, 3)}
