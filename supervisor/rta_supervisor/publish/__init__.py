"""Publishing: tells a Session Service and a Config Service of an existing Toolkit of every session.

Owns the calls, their order and their pace. What is due to be told stands in the catalogue (`catalogue.publications`);
the work is done by a process of its own, so that it delays no session.
"""
