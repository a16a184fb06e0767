"""Numbers in sentences."""


def percent(share: float, digits: int = 2, least: float = 0.001) -> str:
    """A fraction in percent, to so many significant digits.

    A smaller one than `least`, but not 0, is only said to be less.

    Examples
    --------
    >>> percent(0.0312), percent(0.996), percent(0.00012), percent(0.9995, digits=4)
    ('3.1 %', '100 %', 'less than 0.1 %', '99.95 %')
    """
    if 0 < share < least:
        return f"less than {100 * least:g} %"
    rounded = f"{100 * share:.{digits}g}"
    return f"{float(rounded):g} %"
