"""Addresses that people open in a browser; each is also data for programs."""

from importlib.resources import files
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.staticfiles import StaticFiles

from bacoun.server.backend import Backend
from bacoun.server.dialects.formats import JSON
from bacoun.server.dialects.tables import Table
from bacoun.server.http.bodies import media_type_of
from bacoun.web.documents import answers, body
from bacoun.web.errors import ApiError
from bacoun.web.pages import page, wants_page

REPORT = "report.html"  # in a model's folder, written by bacoun report
_ROOMS = ("bacoun.web", "bacoun.server.pages", "bacoun.playground")  # each with a folder static/


def page_routes(backend: Backend) -> APIRouter:
    """Addresses of pages."""
    router = APIRouter(tags=["pages"])

    def show(name: str, headers: dict[str, str] | None = None) -> Response:
        playground = backend.settings.playground
        return page("bacoun.server.pages", name, playground=playground, headers=headers)

    def report_of(name: str) -> Path:
        return Path(backend.catalog[name].path) / REPORT

    @router.get("/models", responses=answers(also=("text/html",)))
    async def models(request: Request) -> Response:
        """The list of models."""
        if wants_page(request.headers):
            return show("models")
        names = backend.catalog.names()
        reports = {name: f"/models/{name}/report" for name in names if report_of(name).is_file()}
        listed = [{"name": n, "page": f"/models/{n}", "report": reports.get(n)} for n in names]
        return JSONResponse({"models": listed})

    @router.get("/models/{name}", responses=answers(404, 422, also=("text/html",)))
    async def model(name: str, request: Request) -> Response:
        """A row and all that the model says about it: a typical one, changed by the query."""
        if wants_page(request.headers):
            return show("model")
        return await backend.ask("row", name, values=dict(request.query_params))

    @router.post(
        "/models/{name}",
        openapi_extra=body(Table, example={"rows": [{"age": 51}]}),
        responses=answers(404, 408, 413, 415, 422),
    )
    async def row(name: str, request: Request) -> Response:
        """The same for one row in the body, where photos and long texts fit."""
        return await backend.ask_with_body(request, "row", name, media_type_of(request, (JSON,)))

    @router.get("/models/{name}/watch", responses=answers(404))
    async def watch(name: str) -> Response:
        """Deferral rate, familiarity, class shares and drift of the rows that were scored."""
        from bacoun.watching.reading import read_log

        try:
            return JSONResponse(read_log(backend.catalog[name].path))
        except FileNotFoundError:
            message = "this model has no log; start the server with --watch."
            raise ApiError(404, message) from None

    @router.get(
        "/models/{name}/report", response_class=HTMLResponse, responses=answers(404, of=None)
    )
    async def report(name: str, request: Request) -> Response:
        """The report of a model, if there is one in its folder."""
        # The page has a policy of its own, which allows its script and style only.
        headers = {"Content-Security-Policy": "frame-ancestors 'none'"}
        if backend.settings.token is not None and wants_page(request.headers):
            return show("fetch_report", headers)
        path = report_of(name)
        if not path.is_file():
            raise ApiError(404, f"there is no {REPORT} in the model's folder; see bacoun report.")
        return HTMLResponse(path.read_bytes(), headers=headers)

    @router.get("/docs", response_class=HTMLResponse, responses=answers(of=None))
    async def docs() -> Response:
        """The interface of the service, for people."""
        return show("docs")

    return router


def add_static_files(app: FastAPI) -> None:
    """Scripts and styles; those of the report are shared with it."""
    # Not by the name of their package, which would import torch.
    shared = files("bacoun").joinpath("report")

    def add_shared(ending: str, media_type: str) -> None:
        content = shared.joinpath(f"page.{ending}").read_text(encoding="utf-8")

        @app.get(f"/static/report.{ending}", include_in_schema=False)
        async def shared_file() -> Response:
            return PlainTextResponse(content, media_type=media_type)

    add_shared("css", "text/css")
    add_shared("js", "text/javascript")

    @app.get("/favicon.ico", include_in_schema=False)
    async def icon() -> Response:
        return Response(status_code=204)

    app.mount("/static", StaticFiles(packages=[(room, "static") for room in _ROOMS]), name="static")
