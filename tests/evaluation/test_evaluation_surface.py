import cxrtext.evaluation


def test_the_public_names_are_there_and_documented() -> None:
    names = cxrtext.evaluation.__all__
    assert len(set(names)) == len(names)
    for name in names:
        value = getattr(cxrtext.evaluation, name)
        assert not callable(value) or value.__doc__
