from ._reading import draw_pages as draw_pages, read_pdf as read_pdf
