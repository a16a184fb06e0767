"""Pages: templates of a room -> HTML. What a page shows it fetches itself, as data."""

from functools import cache

from fastapi.responses import HTMLResponse, Response
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from starlette.datastructures import Headers


def wants_page(headers: Headers) -> bool:
    """Whether a browser asks for a page to show, not a program for data."""
    return "text/html" in headers.get("accept", "")


def page(
    room: str, name: str, *, playground: bool = True, headers: dict[str, str] | None = None
) -> Response:
    """The page `name` of the package `room`; with links to the playground if there is one."""
    template = _templates(room).get_template(f"{name}.html.j2")
    return HTMLResponse(template.render(page=name, has_playground=playground), headers=headers)


@cache
def _templates(room: str) -> Environment:
    return Environment(
        loader=ChoiceLoader([PackageLoader(room), PackageLoader("bacoun.web")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
