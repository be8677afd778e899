from ._reading import read_pdf as read_pdf
