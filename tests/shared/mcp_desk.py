"""An MCP server: a desk that knows where orders are, and a basket."""

from mcp.server import MCPServer

server = MCPServer("desk", instructions="You are a desk.")
basket = []


@server.tool()
def find(number: int) -> str:
    """Where an order is."""
    return ["Paris", "Rome", "Oslo"][number % 3]


@server.tool()
def put(thing: str) -> str:
    """Puts something into the basket."""
    basket.append(thing)
    return show()


@server.tool()
def show() -> str:
    """Shows the basket."""
    return ", ".join(basket) or "nothing"


@server.tool()
def clear() -> str:
    """Empties the basket."""
    basket.clear()
    return show()


server.run("stdio")
