"""Config: the base of everything that a config.json holds."""

from dataclasses import MISSING, asdict, fields


class Config:
    """The base of configs, which are frozen dataclasses: to a dict for JSON, and back.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, kw_only=True)
    ... class SizesConfig(Config):
    ...     d_model: int
    ...     n_layers: int = 2
    >>> SizesConfig.from_dict(SizesConfig(d_model=8).as_dict())
    SizesConfig(d_model=8, n_layers=2)
    >>> SizesConfig.from_dict({"width": 8})
    Traceback (most recent call last):
    ValueError: SizesConfig: the options do not fit; unknown: ['width'], missing: ['d_model'].
    """

    def as_dict(self):
        """All options by name."""
        return asdict(self)

    @classmethod
    def from_dict(cls, options):
        """The config of an `as_dict`.

        Raises
        ------
        ValueError
            If an option is unknown, or one without a default is missing.
        """
        unknown = set(options) - {field.name for field in fields(cls)}
        missing = {field.name for field in fields(cls) if field.default is MISSING} - set(options)
        if unknown or missing:
            raise ValueError(f"{cls.__name__}: the options do not fit; unknown: {sorted(unknown)}, "
                             f"missing: {sorted(missing)}.")
        return cls(**options)
