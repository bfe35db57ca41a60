"""The index as the service asks it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cxrtext.errors import DataError, InputError, NotFoundError
from cxrtext.index import open_index
from cxrtext.models import ImageTextModel
from cxrtext.service import Service


@pytest.fixture
def service(index_folder: Path, model: ImageTextModel) -> Iterator[Service]:
    made = Service(model, open_index(index_folder, model))
    yield made
    made.close()


def test_every_kind_of_query(service: Service) -> None:
    image = service.embedded("images/s01.png")
    query = service.make_query(
        "Left pleural effusion.", without=["Right pneumothorax."], image=image, image_weight=0.4
    )
    found = service.search(query, 5, where="age > 50", unique="patient")
    assert len(found.hits) == 5
    assert found.exact
    like = service.search(service.make_query(image=image), 1).hits
    assert like[0].image.image == "images/s01.png"
    said = service.search_sentences("Left pleural effusion.", 1)
    assert said[0].sentence == "Left pleural effusion."


def test_wrong_questions(service: Service, model: ImageTextModel) -> None:
    with pytest.raises(InputError, match="give a sentence or an image"):
        service.make_query()
    with pytest.raises(InputError, match="sentence is empty"):
        service.make_query("Edema.", without=[" "])
    with pytest.raises(InputError, match="image weight 2"):
        service.make_query("Edema.", image_weight=2)
    with pytest.raises(InputError, match="65 sentences not to fit"):
        service.make_query("Edema.", without=["Edema."] * 65)
    query = service.make_query("Edema.")
    for k in (0, 10**9):
        with pytest.raises(InputError, match="between 1 and 1000"):
            service.search(query, k)
    with pytest.raises(DataError, match="no column 'weight'"):
        service.search(query, where="weight > 3")
    with pytest.raises(NotFoundError, match="no index is loaded"):
        Service(model).search(query)
