"""Benchmarks on public sets as frozen recipes: images, prompts, settings, measures."""

from typing import TYPE_CHECKING

from cxrtext.surface import import_on_use

if TYPE_CHECKING:
    from cxrtext.evaluation.recipes.recipe import Recipe, load_recipe, recipe_names
    from cxrtext.evaluation.recipes.run import RecipeRun, run_recipe

__all__ = ["Recipe", "RecipeRun", "load_recipe", "recipe_names", "run_recipe"]

import_on_use(__name__)
