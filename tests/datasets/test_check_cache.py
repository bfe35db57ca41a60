import os
import sqlite3
from pathlib import Path

import pytest

from cxrtext.datasets.checking.facts import ImageFacts, open_cache
from cxrtext.errors import DataError

FACTS = ImageFacts(format="PNG", width=3, height=2, mean=1.5, file_digest="ab")


def test_facts_outlive_the_run_until_the_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    with open_cache(path) as cache:
        assert cache.get("a", (1, 2)) is None
        cache.put("a", (1, 2), FACTS)
    with open_cache(path) as cache:
        assert cache.get("a", (1, 2)) == FACTS
        assert cache.get("a", (1, 3)) is None
        assert cache.get("b", (1, 2)) is None


def test_what_was_done_before_an_error_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    with pytest.raises(KeyboardInterrupt), open_cache(path) as cache:
        cache.put("a", (1, 2), FACTS)
        raise KeyboardInterrupt
    with open_cache(path) as cache:
        assert cache.get("a", (1, 2)) == FACTS


def test_faults_are_looked_at_again(tmp_path: Path) -> None:
    with open_cache(tmp_path / "cache.sqlite") as cache:
        cache.put("a", (1, 2), ImageFacts(fault="is damaged"))
        assert cache.get("a", (1, 2)) is None


def test_cache_of_another_version_is_emptied(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    with open_cache(path) as cache:
        cache.put("a", (1, 2), FACTS)
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version = 999")
    database.close()
    with open_cache(path) as cache:
        assert cache.get("a", (1, 2)) is None


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("not a database, and longer than its header would have to be" * 20)
    with pytest.raises(DataError, match="no readable cache"), open_cache(text):
        pass
    other = tmp_path / "other.sqlite"
    database = sqlite3.connect(other)
    database.execute("CREATE TABLE facts (mine TEXT)")
    database.commit()
    database.close()
    with pytest.raises(DataError, match="no cache of check-data"), open_cache(other):
        pass
    database = sqlite3.connect(other)
    assert database.execute("SELECT count(*) FROM facts").fetchone() == (0,)
    database.close()


def test_folder_that_cannot_be_written_is_done_without_a_cache(tmp_path: Path) -> None:
    nowhere = tmp_path / "missing" / "cache.sqlite"
    with open_cache(nowhere) as cache:
        cache.put("a", (1, 2), FACTS)
        assert cache.get("a", (1, 2)) is None
    with pytest.raises(DataError, match="cannot be written"), open_cache(nowhere, wanted=True):
        pass
    assert not os.path.lexists(nowhere)
    with open_cache(None) as cache:
        cache.put("a", (1, 2), FACTS)
        assert cache.get("a", (1, 2)) is None
