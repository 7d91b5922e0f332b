"""Laws fitted to measurements: powers, and the scaling law of losses."""
