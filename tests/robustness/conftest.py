"""What an attack or a failing machine does to cxrtext; ``make test-all`` runs it.

Every test draws from a seed that it prints; ``CXRTEXT_SEED`` gives it again.
"""

import os
import random
import secrets

import pytest


@pytest.fixture
def seed() -> int:
    value = int(os.environ.get("CXRTEXT_SEED") or secrets.randbits(32))
    print(f"CXRTEXT_SEED={value}")
    return value


@pytest.fixture
def chance(seed: int) -> random.Random:
    return random.Random(seed)
