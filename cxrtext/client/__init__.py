"""The typed HTTP client: ``with Client("http://127.0.0.1:8000") as client: client.model()``.

It imports only pydantic and httpx2, no model and no web framework.
"""

from cxrtext.client.client import Client, ImageId
from cxrtext.client.transport import ApiError

__all__ = ["ApiError", "Client", "ImageId"]
