"""The typed HTTP client: ``with Client("http://127.0.0.1:8000") as client: client.model()``.

It imports no model and no web framework, only pydantic and httpx2.
"""

from cxrtext.client.client import Client, ImageId
from cxrtext.client.transport import ApiError

__all__ = ["ApiError", "Client", "ImageId"]
