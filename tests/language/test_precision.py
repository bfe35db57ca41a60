"""Which arithmetic can be had, and what a scorer says of itself."""

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import BertForMaskedLM

from cxrtext.errors import ConfigError
from cxrtext.language import score_sentences_detailed
from cxrtext.language.scoring import quantized
from cxrtext.language.scoring.quantized import can_quantize
from cxrtext.language.scoring.score import Scorer, build_network
from cxrtext.models.masked_lm import MaskedLanguageModel
from tests.language.conftest import SPECIAL, network_scores, random_model
from tests.warm import Warm

IDS = torch.randint(5, 60, (30, 6), generator=torch.Generator().manual_seed(0))


def scores(model: BertForMaskedLM, kind: Any, ids: torch.Tensor = IDS) -> NDArray[np.float32]:
    return network_scores(build_network(model, SPECIAL, kind), ids)


@pytest.mark.parametrize("name", ["float64", "", "INT8"])
def test_an_unknown_name_is_refused_with_the_known_ones_and_float16_on_a_cpu(name: Any) -> None:
    known = "float32, bfloat16, float16, int8"
    with pytest.raises(ConfigError, match=f"^precision '{name}' is not one of {known}$"):
        build_network(random_model(), SPECIAL, name)
    with pytest.raises(ConfigError, match="float16 is for GPUs; on a CPU take bfloat16 or int8"):
        build_network(random_model(), SPECIAL, "float16")


def test_bfloat16_is_near_float32() -> None:
    model = random_model()
    exact, fast = scores(model, "float32"), scores(model, "bfloat16")
    assert 0 < np.abs(fast - exact).mean() < 0.03
    assert np.abs(fast - exact).max() < 0.2
    assert fast.dtype == np.float32


def test_in_bfloat16_the_company_matters_no_more_than_rounding_does() -> None:
    # oneDNN chooses its kernel by the number of rows, and sums in another order.
    model = random_model()
    exact, together = scores(model, "float32"), scores(model, "bfloat16")
    alone = np.concatenate([scores(model, "bfloat16", row[None]) for row in IDS])
    assert np.abs(alone - together).max() <= np.abs(together - exact).max()
    assert np.abs(alone - together).mean() <= np.abs(together - exact).mean() / 2


@pytest.mark.skipif(
    not torch.cpu._is_vnni_supported() or "ONEDNN_MAX_CPU_ISA" in os.environ,
    reason="no exact integer products on this processor, or oneDNN may not use them",
)
def test_int8_is_to_be_had_where_the_processor_has_exact_products() -> None:
    assert can_quantize()


def test_int8_is_refused_in_one_line_where_products_are_not_exact(
    warm: Warm, language_model: Path, tmp_path: Path
) -> None:
    reports = tmp_path / "reports.csv"
    reports.write_text("study_id,findings,impression\ns1,The lungs are clear.,\n")
    command: list[str | Path] = ["-c", "import cxrtext_cli; cxrtext_cli.start()"]
    command += ["score-text", reports]
    command += ["--model", language_model, "--precision", "int8", "--device", "cpu"]
    # oneDNN's products of AVX2 add pairs in 16 bits, on every processor.
    done = warm.start(command, env={**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"})
    _, err = done.communicate(timeout=600)
    assert done.returncode == 2
    (line,) = err.strip().splitlines()
    assert line.startswith("error: int8 needs a CPU ")
    assert line.endswith("take bfloat16 or float32")
    assert not (tmp_path / "sentences.csv").exists()


@pytest.mark.skipif(not can_quantize(), reason="no exact integer products on this processor")
def test_int8_works_without_bfloat16_too(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model()
    exact = scores(model, "float32")
    monkeypatch.setattr(quantized, "can_pack", lambda _: False)
    assert build_network(model, SPECIAL, "int8").dtype == torch.float32
    assert np.abs(scores(model, "int8") - exact).mean() < 0.1


def test_a_scorer_is_known_by_model_and_precision(tiny: MaskedLanguageModel) -> None:
    kinds: list[Any] = ["float32", "bfloat16", *(["int8"] if can_quantize() else [])]
    found = {Scorer(tiny, kind).identity for kind in kinds}
    assert len(found) == len(kinds)
    assert all(tiny.fingerprint in identity for identity in found)
    assert Scorer(tiny, batch_tokens=50).identity == Scorer(tiny, batch_tokens=500).identity


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_tokens": 0}, "batch_tokens is 0; it must be at least 1"),
        ({"precision": "half"}, "precision 'half' is not one of float32"),
    ],
)
def test_a_scorer_refuses(options: dict[str, Any], message: str, tiny: MaskedLanguageModel) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        score_sentences_detailed(["No."], tiny, **options)
