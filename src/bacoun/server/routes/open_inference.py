"""The Open Inference Protocol, version 2."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from fastapi.responses import Response

from bacoun.server.bodies import media_type_of
from bacoun.server.dialects.media_types import JSON
from bacoun.server.documented import INFER, INFERRED, OBJECT, answer, errors
from bacoun.server.errors import ApiError
from bacoun.server.service import Service

_BINARY = "application/octet-stream"  # of bodies with the binary extension


def open_inference_routes(service: Service) -> APIRouter:
    """Addresses of the protocol."""
    router = APIRouter(prefix="/v2", tags=["open inference protocol"])

    @router.get("", responses=answer(OBJECT) | errors())
    async def server_metadata() -> dict[str, Any]:
        """Name, version and extensions of the server."""
        return {
            "name": "bacoun",
            "version": version("bacoun"),
            "extensions": ["binary_tensor_data"],
        }

    @router.get("/health/live", responses=answer(OBJECT) | errors())
    async def is_live() -> dict[str, bool]:
        """Whether the server runs."""
        return {"live": True}

    @router.get("/health/ready", responses=answer(OBJECT) | errors())
    async def is_ready() -> dict[str, bool]:
        """Whether the models are loaded."""
        if not service.is_ready:
            raise ApiError(503, service.reason_to_wait)
        return {"ready": True}

    @router.get("/models/{name}", responses=answer(OBJECT) | errors(404))
    async def model_metadata(name: str) -> Response:
        """Inputs and outputs of a model."""
        return await service.ask("metadata", name)

    @router.get("/models/{name}/ready", responses=answer(OBJECT) | errors(404))
    async def is_model_ready(name: str) -> dict[str, Any]:
        """Whether a model can be asked."""
        found = await service.ask("metadata", name)
        if found.status_code != 200:
            raise ApiError(503, "the model cannot be loaded.")
        return {"name": name, "ready": True}

    @router.post(
        "/models/{name}/infer",
        openapi_extra=INFER,
        responses=INFERRED | errors(404, 408, 413, 415, 422),
    )
    async def infer(
        name: str,
        request: Request,
        inference_header_content_length: Annotated[int | None, Header(ge=0)] = None,
    ) -> Response:
        """Score one tensor per column; outputs are the columns of a scored table."""
        if request.headers.get("content-type"):
            media_type_of(request, (JSON, _BINARY))
        return await service.ask_with_body(
            request, "infer", name, JSON, header_length=inference_header_content_length
        )

    return router
