import pytest

from cxrtext.phantom.studies import PhantomStudy, draw_studies

COUNT = 4000


@pytest.fixture(scope="session")
def studies() -> list[PhantomStudy]:
    """A population large enough for frequencies; read-only by convention."""
    return draw_studies(COUNT, seed=23)
