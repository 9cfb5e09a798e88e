"""Archive files wherever they are: on this machine, in an object store, or behind HTTP."""
