"""Buttons that copy an answer, a table in it, or a block of code, or make a cell of that.

A saved notebook has no script, so the page in which a question was asked adds the buttons, also to
the answers of earlier questions. No kernel can add a cell after a press, but JupyterLab and
Notebook 7 run a command that a pressed button names (their command linker).
"""

from __future__ import annotations

from archytas_nb.trace.safe import ACTIONS, ANSWER, CLASS, PYTHON, Html, stylesheet

_SHEET = (
    f".{CLASS} :has(>.anb-copy){{position:relative}}"
    ".anb-copy+.anb-copy{right:5em}"
    # That of the answer is next to the line above it, where there is no text.
    f".{ANSWER}>.anb-copy{{top:-2.2em}}"
    ".anb-copy{position:absolute;top:.3em;right:.3em;padding:.1em .6em;font:inherit;"
    "font-size:.85em;border:1px solid;border-radius:4px;cursor:pointer;opacity:0;user-select:none;"
    "background:var(--jp-layout-color0,Canvas);color:inherit}"
    ":hover>.anb-copy,.anb-copy:focus-visible{opacity:1}"
    ".anb-copy[hidden]{display:none}"
    "@media(hover:none){.anb-copy{opacity:1}}"
    "@media print{.anb-copy{display:none}}"
)
_OFFER = f"""
if (!window.archytasNbCopies) {{
  window.archytasNbCopies = true
  const sheet = this.cloneNode(true)
  sheet.removeAttribute('onload')
  document.head.append(sheet)

  const textOf = block => {{
    const shown = [...block.querySelectorAll('.anb-copy')]
    shown.forEach(each => {{ each.hidden = true }})
    const text = block.innerText.trimEnd()  // the cells of a table have tabs between them
    shown.forEach(each => {{ each.hidden = false }})
    return text
  }}
  const copy = async (block, button) => {{
    const text = textOf(block)
    try {{
      await navigator.clipboard.writeText(text)
    }} catch {{  // a page that was loaded with http has no clipboard
      const field = document.body.appendChild(document.createElement('textarea'))
      field.value = text
      field.select()
      const isCopied = document.execCommand('copy')
      field.remove()
      button.focus()
      if (!isCopied) return
    }}
    button.textContent = 'Copied'
    setTimeout(() => {{ button.textContent = 'Copy' }}, 1500)
  }}

  const code = '.{ANSWER} pre.{PYTHON}, .{ACTIONS} pre'
  const inserting = block => {{
    const button = document.createElement('button')
    button.type = 'button'
    button.className = 'anb-copy'
    button.textContent = 'Insert as cell'
    button.dataset.lmSuppressShortcuts = 'true'
    button.dataset.commandlinkerCommand = 'apputils:run-all-enabled'
    // The page runs the command after this, when the press has arrived at its body.
    button.addEventListener('click', () => {{
      const commands = ['notebook:insert-cell-below', 'notebook:replace-selection']
      const args = {{text: textOf(block)}}
      button.dataset.commandlinkerArgs = JSON.stringify({{commands, args}})
    }})
    return button
  }}

  const names = {{'.{ANSWER}': 'Copy the answer', 'div:has(>table)': 'Copy the table'}}
  const blocks = '.{CLASS} pre, .{ANSWER}, .{ANSWER} div:has(>table)'
  const offer = root => {{
    const found = [...root.querySelectorAll(blocks), ...(root.matches(blocks) ? [root] : [])]
    for (const block of found) {{
      const isAnswer = !block.closest('details, .widget-html:not(.anb-actions *)')
      if (!isAnswer || block.querySelector(':scope > .anb-copy')) continue
      const button = document.createElement('button')
      button.type = 'button'
      button.className = 'anb-copy'
      button.textContent = 'Copy'
      for (const [kind, name] of Object.entries(names))
        if (block.matches(kind)) button.setAttribute('aria-label', name)
      button.dataset.lmSuppressShortcuts = 'true'
      button.addEventListener('click', () => copy(block, button))
      block.append(button)
      if (block.matches(code) && block.closest('.jp-Notebook'))
        block.append(inserting(block))
    }}
  }}
  offer(document.body)
  new MutationObserver(changes => {{
    for (const change of changes)
      for (const node of change.addedNodes)
        if (node.nodeType === Node.ELEMENT_NODE) offer(node)
  }}).observe(document.body, {{childList: true, subtree: true}})
}}
"""


def copy_buttons() -> Html:
    """A script that adds a button to each block of an answer, also after the run."""
    return stylesheet(_SHEET, onload=_OFFER)
