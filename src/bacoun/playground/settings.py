"""Settings of the two pages, as they stand in their addresses."""

from typing import Any, Literal

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

    data: Data = Field("gmm", description="Data set; 'points' are those of the address.")
    points: str = Field(
        "",
        max_length=8000,
        pattern=r"^[0-9,.;-]*$",
        description="Your own points: 'class,x,y' with semicolons between them.",
    )
    n: int = Field(150, ge=20, le=500, description="Points in each class.")
    seed: int = Field(0, ge=0, le=9999, description="Of the data and the fit.")
    a: Method = Field("bacoun", description="Method on the left.")
    b: Method | Literal[""] = Field("", description="Method on the right, if any.")
    radius: float = Field(
        1.0, ge=0.5, le=2.0, description="Radius of the shell; 1 holds 99 % of the data."
    )
    edge: int = Field(400, ge=50, le=2000, description="Number of boundary points.")
    doubt: float = Field(
        0.01, ge=0, le=0.5, description="Prior probability of being out of distribution."
    )
    width: int = Field(32, ge=4, le=256, description="Width of the last layer.")
    prior: float = Field(
        1.0, ge=0.05, le=10, description="Standard deviation of the prior of the weights."
    )

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

    image: str = Field(
        "",
        pattern=rf"^([0-9a-f]{{{SIDE * SIDE}}})?$",
        description=f"Your drawing: {SIDE} rows of {SIDE} shades, 0 to f; none: an example.",
    )
    example: int = Field(3, ge=0, le=9, description="Digit to start from.")
    rotate: float = Field(0.0, ge=-180, le=180, description="Degrees.")
    blur: float = Field(0.0, ge=0, le=4, description="Standard deviation in pixels.")
    noise: float = Field(0.0, ge=0, le=1, description="Standard deviation of shades.")
    morph: int = Field(8, ge=0, le=9, description="Digit to morph into.")
    amount: float = Field(0.0, ge=0, le=1, description="How far it is morphed.")
    data: Literal["auto", "mnist", "digits"] = Field(
        "auto", description="What was learned from: MNIST, or scikit-learn's digits."
    )
