"""Procedural chest radiographs with reports, labels and boxes: the built-in data set."""

from cxrtext.phantom.render import Patient
from cxrtext.phantom.render import draw as draw_phantom
from cxrtext.phantom.write import write_phantoms

__all__ = ["Patient", "draw_phantom", "write_phantoms"]
