"""The typed HTTP client: ``with Client("http://127.0.0.1:8000") as client: client.model()``.

It needs no model and no web framework, only pydantic and, to be used, httpx2
(``pip install 'cxrtext[client]'``).
"""

from cxrtext.client.client import Client
from cxrtext.client.errors import ApiError
from cxrtext.client.pictures import ImageId

__all__ = ["ApiError", "Client", "ImageId"]
