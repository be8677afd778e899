from ._routes import interface_routes as interface_routes
