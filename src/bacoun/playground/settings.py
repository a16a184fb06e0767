"""Settings of the two pages, as they stand in their addresses."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

Data = Literal["gmm", "moons", "rings", "points"]
Method = Literal["bacoun", "paper", "nlm", "mc-dropout", "ensemble", "gp"]
MAX_POINTS = 400
MAX_CLASSES = 4
SIDE = 28  # pixels of a drawing

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
    """What is fitted to points in the plane, and shown."""

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

    def fits(self) -> list[dict[str, Any]]:
        """What the fit of each method shown, one or two, depends on."""
        data = {"data", "seed", "points" if self.data == "points" else "n"}
        return [
            {"method": method} | self.model_dump(include=data | set(SLIDERS[method]))
            for method in (self.a, self.b)
            if method
        ]


class DigitSettings(BaseModel):
    """A drawing, and what is done to it."""

    image: Annotated[
        str,
        Field(
            pattern=rf"^([0-9a-f]{{{SIDE * SIDE}}})?$",
            description=f"Your drawing: {SIDE} rows of {SIDE} shades, 0 to f; none: an example.",
        ),
    ] = ""
    example: Annotated[int, Field(ge=0, le=9, description="Digit to start from.")] = 3
    rotate: Annotated[float, Field(ge=-180, le=180, description="Degrees.")] = 0.0
    blur: Annotated[float, Field(ge=0, le=4, description="Standard deviation in pixels.")] = 0.0
    noise: Annotated[float, Field(ge=0, le=1, description="Standard deviation of shades.")] = 0.0
    morph: Annotated[int, Field(ge=0, le=9, description="Digit to morph into.")] = 8
    amount: Annotated[float, Field(ge=0, le=1, description="How far it is morphed.")] = 0.0
    data: Annotated[
        Literal["auto", "mnist", "digits"],
        Field(description="What was learned from: MNIST, or scikit-learn's digits."),
    ] = "auto"
