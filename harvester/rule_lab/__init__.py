"""The rule lab: rule files kept in versions, edited as rows, tried on samples, rehearsed on kept answers."""
