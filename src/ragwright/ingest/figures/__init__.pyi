from ._found import (
    FoundFigure as FoundFigure,
    image_size as image_size,
    kept_figures as kept_figures,
    media_type as media_type,
)
from ._office import docx_figures as docx_figures, pptx_figures as pptx_figures
from ._pdf_images import pdf_figures as pdf_figures, png_file as png_file
from ._read import FIGURE_KINDS as FIGURE_KINDS, figures_in as figures_in
from ._web_images import epub_figures as epub_figures, html_figures as html_figures
