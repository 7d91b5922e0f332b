"""Pictures of models: their architecture, and how they have grown."""
