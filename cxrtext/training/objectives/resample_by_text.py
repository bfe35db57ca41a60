"""Draws negatives with similar text less often.  Source: Wang et al. 2023, table 1."""

from dataclasses import replace

from cxrtext.config import Beta, Config, Positive
from cxrtext.training.objectives.shared.objective import Direction, Terms, info_nce
from cxrtext.training.objectives.shared.texts import ComparingTexts


class Objective(ComparingTexts):
    keep: Positive = 32
    beta: Beta = 1.0

    def fits(self, config: Config) -> None:
        negatives = config.training.batch - 1
        if self.keep >= negatives:
            raise ValueError(
                f"objective.keep: {self.keep} of the {negatives} negatives that a batch "
                f"of {config.training.batch} has resamples nothing; give fewer, such as "
                f"{max(1, negatives // 2)}"
            )

    def losses(self, d: Direction) -> Terms:
        from cxrtext.objectives.contrastive import resampled

        if d.generator is None:
            raise ValueError(f"{self.name} needs a generator that follows from the seed and step")
        draws = (self.keep, self.beta, d.generator, d.positive)
        return info_nce(replace(d, scores=resampled(d.scores, d.known["similarity"], *draws)))
