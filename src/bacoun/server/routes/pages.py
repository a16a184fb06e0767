"""Pages: the list of models, a model's page, its log and its report, and the documentation."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import PlainTextResponse
from starlette.staticfiles import StaticFiles

from bacoun.server.documented import OBJECT, answer, errors
from bacoun.server.errors import ApiError
from bacoun.server.gate import wants_page
from bacoun.server.service import Service

REPORT = "report.html"  # in a model's folder, written by bacoun report


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("bacoun.server"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def page(name: str, service: Service, headers: dict[str, str] | None = None) -> Response:
    """A page; what it shows it fetches itself."""
    has = {"playground": service.settings.playground}
    text = _templates().get_template(f"{name}.html.j2").render(page=name, has=has)
    return HTMLResponse(text, headers=headers)


def page_routes(service: Service) -> APIRouter:
    """Addresses that people open in a browser; each is also data for programs."""
    router = APIRouter(tags=["pages"])

    @router.get("/models", responses=answer(OBJECT, "text/html") | errors())
    async def models(request: Request) -> Response:
        """The list of models."""
        if wants_page(request.headers):
            return page("models", service)
        names = service.catalog.names()
        return JSONResponse({"models": [{"name": each, **_links(service, each)} for each in names]})

    @router.get("/models/{name}", responses=answer(OBJECT, "text/html") | errors(404, 422))
    async def model(name: str, request: Request) -> Response:
        """A row and all that the model says about it: a typical one, changed by the query."""
        if wants_page(request.headers):
            return page("model", service)
        values = dict(request.query_params)
        return await service.ask("row", name, options={"values": values})

    @router.get("/models/{name}/watch", responses=answer(OBJECT) | errors(404))
    async def watch(name: str) -> Response:
        """Deferral rate, familiarity, class shares and drift of the rows that were scored."""
        from bacoun.watching.reading import read_log

        try:
            return JSONResponse(read_log(service.catalog[name].path))
        except FileNotFoundError:
            message = "this model has no log; start the server with --watch."
            raise ApiError(404, message) from None

    @router.get("/models/{name}/report", response_class=HTMLResponse, responses=errors(404))
    async def report(name: str, request: Request) -> Response:
        """The report of a model, if there is one in its folder."""
        # The page has a policy of its own, which allows its script and style only.
        headers = {"Content-Security-Policy": "frame-ancestors 'none'"}
        if service.settings.token is not None and wants_page(request.headers):
            return page("fetch_report", service, headers)
        path = Path(service.catalog[name].path) / REPORT
        if not path.is_file():
            raise ApiError(404, f"there is no {REPORT} in the model's folder; see bacoun report.")
        return HTMLResponse(path.read_bytes(), headers=headers)

    @router.get("/docs", response_class=HTMLResponse, responses=errors())
    async def docs() -> Response:
        """The interface of the service, for people."""
        return page("docs", service)

    return router


def _links(service: Service, name: str) -> dict[str, Any]:
    has_report = (Path(service.catalog[name].path) / REPORT).is_file()
    return {"page": f"/models/{name}", "report": f"/models/{name}/report" if has_report else None}


def add_static_files(app: FastAPI) -> None:
    """Scripts and styles; those of the report are shared with it."""
    # Not by the name of their package, which would import torch.
    shared = files("bacoun").joinpath("report")
    styles = shared.joinpath("page.css").read_text(encoding="utf-8")
    script = shared.joinpath("page.js").read_text(encoding="utf-8")

    @app.get("/static/report.css", include_in_schema=False)
    async def report_styles() -> Response:
        return PlainTextResponse(styles, media_type="text/css")

    @app.get("/static/report.js", include_in_schema=False)
    async def report_script() -> Response:
        return PlainTextResponse(script, media_type="text/javascript")

    @app.get("/favicon.ico", include_in_schema=False)
    async def icon() -> Response:
        return Response(status_code=204)

    folder = str(files("bacoun.server").joinpath("static"))
    app.mount("/static", StaticFiles(directory=folder), name="static")
