"""What goes wrong, in one sentence that says what was found and what to do."""


class Error(ValueError):
    """Something given to Bespoke cannot be used."""


class DivergedError(Error):
    """A model or a solver stopped being finite."""
