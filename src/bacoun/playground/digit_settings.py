"""Settings of the page for digits, as they stand in its address."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

SIDE = 28


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
