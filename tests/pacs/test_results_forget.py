"""Results of somebody who is to be forgotten."""

from pathlib import Path

from cxrtext.datasets.admission.ids import Ids, read_key
from cxrtext.pacs.results.folder import ResultsFolder
from cxrtext.pacs.results.making import make_results
from cxrtext.service import load_service
from cxrtext.service.forget.forget import forget
from tests.conftest import draw
from tests.pacs.result_sources import write_source


def test_results_are_forgotten_with_their_study_also_under_hashed_ids(
    checkpoint: Path, tmp_path: Path
) -> None:
    service, folder = load_service(checkpoint), ResultsFolder(tmp_path / "out" / "results")
    key = tmp_path / "key"
    key.write_text("a key of thirty-two characters. ")
    ids, studies = Ids(read_key(key)), []
    for number in (1, 2):
        path = write_source(
            tmp_path / f"{number}.dcm", "cr", number=number, pixels=draw("effusion", number) / 255
        )
        made = make_results(service, path, "Left pleural effusion.", folder, ids=ids).results
        folder.note_sent([one.instance for one in made], "archive")
        folder.note_answered("rule", made[0].source, "2026-11-23T06:00:00+00:00", "")
        studies.append(made[0].study_id)
        path.unlink()
    done = forget([tmp_path / "out"], study=studies[0])
    assert [(place.what, place.done) for place in done.places if place.what == "results"] == [
        ("results", True)
    ]
    left = folder.all()
    assert {one.study_id for one in left} == {studies[1]}
    assert len(list((tmp_path / "out" / "results" / "objects").iterdir())) == len(left) == 2
    image = ("1.2.826.0.1.99.1.1.1.1", "2026-11-23T06:00:00+00:00")
    assert not folder.answered("rule", [image])
    assert sum(folder.tally().values()) == 2
