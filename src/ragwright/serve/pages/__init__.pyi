from ._page import Page as Page
from ._routes import page_routes as page_routes
