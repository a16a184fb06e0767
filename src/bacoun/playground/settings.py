"""Settings of the playground, as they stand in the address of the page."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

Data = Literal["gmm", "moons", "rings", "points"]
Method = Literal["bacoun", "paper", "nlm", "mc-dropout", "ensemble", "gp"]
MAX_POINTS = 400
MAX_CLASSES = 4

# Which sliders change the fit of a method; others leave its address, and its fit, as they are.
SLIDERS: dict[str, tuple[str, ...]] = {
    "bacoun": ("radius", "edge", "doubt", "width", "prior"),
    "paper": ("radius", "edge", "width", "prior"),
    "nlm": ("width", "prior"),
    "mc-dropout": ("width",),
    "ensemble": ("width",),
    "gp": (),
}


class PlaneSettings(BaseModel):
    """What is fitted, and shown."""

    data: Annotated[Data, Field(description="Data set; 'points' are those of the address.")] = "gmm"
    points: Annotated[
        str,
        Field(
            max_length=8000,
            pattern=r"^[0-9,.;-]*$",
            description="Your own points: 'class,x,y' with semicolons between them.",
        ),
    ] = ""
    n: Annotated[int, Field(ge=20, le=500, description="Points in each class.")] = 150
    seed: Annotated[int, Field(ge=0, le=9999, description="Of the data and the fit.")] = 0
    a: Annotated[Method, Field(description="Method on the left.")] = "bacoun"
    b: Annotated[Method | Literal[""], Field(description="Method on the right, if any.")] = ""
    radius: Annotated[
        float, Field(ge=0.5, le=2.0, description="Radius of the shell; 1 holds 99 % of the data.")
    ] = 1.0
    edge: Annotated[int, Field(ge=50, le=2000, description="Number of boundary points.")] = 400
    doubt: Annotated[
        float, Field(ge=0, le=0.5, description="Prior probability of being out of distribution.")
    ] = 0.01
    width: Annotated[int, Field(ge=4, le=256, description="Width of the last layer.")] = 32
    prior: Annotated[
        float, Field(ge=0.05, le=10, description="Standard deviation of the prior of the weights.")
    ] = 1.0

    def fit_of(self, method: str) -> dict[str, Any]:
        """What the fit of one method depends on."""
        names = ("data", "seed", "points" if self.data == "points" else "n")
        return {"method": method} | {
            name: getattr(self, name) for name in (*names, *SLIDERS[method])
        }

    def methods(self) -> list[str]:
        """One method, or two."""
        return [self.a, *([self.b] if self.b else [])]
