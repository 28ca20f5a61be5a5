"""The web application of the supervisor: its routes, and the live page. Everything that is not about a route is in
`http`.
"""
