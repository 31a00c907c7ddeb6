"""What rules a suggestion out or makes it pay.

Memory, software support, availability, break-even.
"""
