"""The rule lab: versioned rule files, edited as rows, tried on samples, and previewed on stored answers."""
