from markedness.frames import marked_words as marked_words
from markedness.frames import matched_guise as matched_guise
from markedness.frames import paired_gaps as paired_gaps
from markedness.frames import probability_of_differentiation as probability_of_differentiation
from markedness.notebook import load_study as load_study

__version__: str
__all__: list[str]
