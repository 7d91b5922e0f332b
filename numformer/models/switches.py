"""What the config of every model can do: go into JSON, and come back."""

from dataclasses import MISSING, asdict, fields


class Switches:
    """The base of the frozen dataclasses that hold a model's switches."""

    def as_dict(self):
        """All switches, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, switches):
        """The config of `as_dict`.

        Raises
        ------
        ValueError
            If a switch is unknown or a needed one is missing.
        """
        known = {field.name for field in fields(cls)}
        missing = {field.name for field in fields(cls) if field.default is MISSING} - set(switches)
        if set(switches) - known or missing:
            raise ValueError(f"{cls.__name__}: the switches do not fit; unknown: {sorted(set(switches) - known)}, "
                             f"missing: {sorted(missing)}.")
        return cls(**switches)
