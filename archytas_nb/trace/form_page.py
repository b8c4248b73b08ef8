"""The behaviour of forms in a page while they wait for a person.

    appears ──▶ drawn for 0.7 s, each end of the call seen ──▶ it can be run
       │                                                     click on a button
       ├ the keyboard stays where it is                      Ctrl-Enter or ⌘-Enter in the form
       ├ scrolled to once, unless somebody types             Enter or Space on a button
       └ out of view: a sign at the lower right; "●" in the title of the tab

A key belongs to whoever has the focus, and a form takes it only when the person comes to it. What
is pressed before a form can have been read was meant for something else. The kernel checks the time
as well, but only the page knows when a form was drawn and what of it was in view. A page that runs
no such script has the same buttons.
"""

from __future__ import annotations

from archytas_nb.loop.events import UNSEEN
from archytas_nb.trace.safe import Html, stylesheet

FORM = "anb-form"
CALL = "anb-call"
"""What must have been seen before the call can be run."""
TITLE = "anb-waits"
"""The line that says what waits."""
SINCE = "anb-since"
RUN = "anb-run"
GO = "anb-go"
"""The button of Ctrl-Enter, in the part of the form that is shown."""
BACK = "anb-back"
TURN = "anb-turn"
"""Buttons that decide nothing."""
NEXT = "anb-next"
"""Fields in which Enter goes to the next one."""
WRONG = "anb-wrong"
TALL = "anb-tall"
_HINTS = ("early", "enter", "unread")
TOO_SOON = "That came too soon to be meant for this: nothing was done."

_QUIET = 2.0  # seconds after a key in which no form is scrolled to
_MOMENT = 5.0  # seconds in which a hint is shown
_TRIES = 10  # at intervals of 50 ms: a button is off until what was typed last has been checked

_SHEET = (
    f".{FORM} [class*=anb-hint-]{{display:none}}"
    + "".join(f".{FORM}[data-hint={name}] .anb-hint-{name}{{display:block}}" for name in _HINTS)
    + f".{FORM}[data-hint] .anb-hint{{display:none}}"
    ".anb-chip{position:fixed;right:16px;bottom:16px;z-index:10000;display:flex;gap:.8em;"
    "align-items:center;padding:.45em .5em .45em .9em;border-radius:6px;font-size:13px;"
    "font-family:system-ui,sans-serif;border:1px solid #c9851b;border-left:3px solid #c9851b;"
    "background:var(--jp-layout-color1,Canvas);color:var(--jp-ui-font-color1,CanvasText);"
    "box-shadow:0 2px 8px rgba(0,0,0,.25)}"
    ".anb-chip[hidden]{display:none}"
    ".anb-chip i{color:#c9851b;font-style:normal}"
    ".anb-chip button{font:inherit;padding:.2em .9em;cursor:pointer;color:inherit;"
    "border:1px solid;border-radius:4px;background:none}"
)

_SCRIPT = f"""
if (!window.archytasNbForms) {{
  const forms = new Map()
  let keyAt = performance.now()
  let beat = 0
  const now = () => performance.now()
  const sheet = this.cloneNode(true)
  sheet.removeAttribute('onload')
  document.head.append(sheet)

  document.addEventListener('keydown', event => {{
    if (!event.target.closest?.('.{FORM}')) keyAt = now()
  }}, true)

  const isTyping = () => {{
    const texts = 'input, textarea, select, [contenteditable=true], .cm-editor'
    const focused = document.activeElement
    return focused?.closest?.(texts) || now() - keyAt < {_QUIET * 1000:g}
  }}

  const hint = (form, name) => {{
    const state = forms.get(form)
    form.dataset.hint = name
    clearTimeout(state.hinted)
    state.hinted = setTimeout(() => delete form.dataset.hint, {_MOMENT * 1000:g})
  }}
  const isEarly = form => {{
    const {{since}} = forms.get(form)
    return since === null || now() - since < {UNSEEN * 1000:g}
  }}
  const reveal = form => {{
    const isTall = form.getBoundingClientRect().height > innerHeight * .8
    form.scrollIntoView({{block: isTall ? 'start' : 'nearest'}})
  }}
  const show = form => {{
    if (!form.isConnected) return
    reveal(form)
    form.focus({{preventScroll: true}})
  }}
  const leave = form => {{
    const {{was}} = forms.get(form)
    const cell = form.closest('.jp-Notebook')?.querySelector('.jp-Notebook-cell.jp-mod-active')
    const to = was?.isConnected ? was : cell
    document.activeElement.blur()
    to?.focus({{preventScroll: true}})
  }}
  const shown = (form, name) =>
    [...form.querySelectorAll(name)].find(each => each.offsetParent !== null)
  const press = (form, button, tries = {_TRIES}) => {{
    if (!button) return
    if (!button.disabled) button.click()
    else if (button.dataset.unread) hint(form, 'unread')
    else if (tries) setTimeout(press, 50, form, button, tries - 1)
  }}

  const onKey = (form, event) => {{
    const {{key, target}} = event
    const isButton = target.tagName === 'BUTTON'
    const isText = target.tagName === 'TEXTAREA'
    const isField = target.tagName === 'INPUT' && target.type !== 'checkbox'
    const stop = () => {{ event.preventDefault(); event.stopPropagation() }}
    if (event.isComposing || !['Enter', 'Escape', ' '].includes(key)) return
    if (key === ' ') {{
      if (isButton && event.repeat) stop()
      return
    }}
    if (key === 'Escape') {{
      stop()
      const back = shown(form, '.{BACK}')
      if (event.repeat) return
      if (back) back.click()
      else leave(form)
      return
    }}
    if (event.ctrlKey || event.metaKey) {{
      stop()
      if (!event.repeat) press(form, shown(form, '.{GO}'))
    }} else if (event.shiftKey || event.altKey || (event.repeat && !isText)) {{
      stop()
    }} else if (target.closest('.{NEXT}') && isField) {{
      stop()
      const fields = [...form.querySelectorAll('.{NEXT} input, .{NEXT} textarea, .{NEXT} select')]
      const next = fields[fields.indexOf(target) + 1] || shown(form, '.{GO}')
      next?.focus()
    }} else if (isField) {{
      if (!isEarly(form)) return
      stop()
      hint(form, 'early')
    }} else if (!isButton && !isText) {{
      stop()
      hint(form, 'enter')
    }}
  }}
  const onPress = (form, event) => {{
    const button = event.target.closest('button')
    if (!button || button.classList.contains('{TURN}') || !isEarly(form)) return
    event.preventDefault()
    event.stopPropagation()
    hint(form, 'early')
  }}

  // Each end of the call has a mark, and the end of a part that has a scroll bar of its own.
  const mark = (form, state) => {{
    const call = form.querySelector('.{CALL}')
    if (!call || call.dataset.marked) return
    call.dataset.marked = 'true'
    for (const each of state.unread) state.eyes.unobserve(each)
    state.unread.clear()
    const place = (part, how) => {{
      const end = document.createElement('span')
      end.style.cssText = 'display:block;width:1px;height:1px'
      part[how](end)
      state.unread.add(end)
      state.eyes.observe(end)
    }}
    place(call, 'prepend')
    place(call, 'append')
    for (const each of call.querySelectorAll('pre')) place(each, 'append')
    gate(form, state)
  }}
  const isUnread = end => {{
    const part = end.parentElement
    return part.tagName !== 'PRE' || part.scrollHeight > part.clientHeight + 1
  }}
  const gate = (form, state) => {{
    const run = form.querySelector('.{RUN}')
    if (!run) return
    if ([...state.unread].some(isUnread)) {{
      run.dataset.unread = 'true'
      run.title = 'Scroll to the end of the call first'
      if (!run.disabled) run.disabled = true
    }} else if (run.dataset.unread) {{
      delete run.dataset.unread
      run.title = ''
      run.disabled = false
    }}
  }}
  const measure = form => {{
    form.classList.toggle('{TALL}', form.getBoundingClientRect().height > innerHeight * .9)
  }}

  const adopt = form => {{
    const chip = document.createElement('div')
    const state = {{since: null, was: null, unread: new Set(), chip, born: now(), isDone: false}}
    forms.set(form, state)
    state.eyes = new IntersectionObserver(changes => {{
      for (const {{target, isIntersecting}} of changes) {{
        if (!isIntersecting || !state.unread.delete(target)) continue
        state.eyes.unobserve(target)
      }}
      gate(form, state)
    }})
    state.look = new IntersectionObserver(changes => {{
      const {{intersectionRatio, intersectionRect}} = changes.at(-1)
      chip.hidden = intersectionRatio > .5 || intersectionRect.height > innerHeight * .5
      measure(form)
    }}, {{threshold: [0, .1, .3, .5, .7, .9, 1]}})
    state.look.observe(form)
    form.tabIndex = -1
    form.dataset.lmSuppressShortcuts = 'true'
    form.addEventListener('keydown', event => onKey(form, event), true)
    for (const kind of ['pointerdown', 'mousedown', 'click'])
      form.addEventListener(kind, event => onPress(form, event), true)
    form.addEventListener('focusin', event => {{
      const {{target, relatedTarget}} = event
      if (relatedTarget && !form.contains(relatedTarget)) state.was = relatedTarget
      if (target.tagName === 'TEXTAREA' && !target.dataset.begun) {{
        target.dataset.begun = 'true'
        target.setSelectionRange(0, 0)
        target.scrollTop = 0
      }}
    }})
    form.addEventListener('click', event => {{
      if (event.target === form) reveal(form)
      if (event.target.closest('.{BACK}')) form.focus({{preventScroll: true}})  // it disappears
    }})
    state.watch = new MutationObserver(changes => {{
      for (const {{target, type}} of changes) {{
        if (target === form && type === 'attributes' && state.view !== viewOf(form)) {{
          state.view = viewOf(form)
          state.since = now()  // another part of the form is where a button was
        }}
      }}
      mark(form, state)
      gate(form, state)
      for (const field of form.querySelectorAll('.{NEXT}')) {{
        const entry = field.querySelector('input, textarea, select')
        const isWrong = `${{field.classList.contains('{WRONG}')}}`
        if (entry && entry.getAttribute('aria-invalid') !== isWrong)
          entry.setAttribute('aria-invalid', isWrong)
      }}
    }})
    state.view = viewOf(form)
    const attributes = {{attributes: true, attributeFilter: ['class', 'disabled']}}
    state.watch.observe(form, {{childList: true, subtree: true, ...attributes}})
    mark(form, state)
    chip.className = 'anb-chip'
    chip.hidden = true
    chip.setAttribute('role', 'status')
    const dot = document.createElement('i')
    dot.textContent = '●'
    const text = document.createElement('span')
    const button = document.createElement('button')
    button.type = 'button'
    button.textContent = 'Show'
    button.dataset.lmSuppressShortcuts = 'true'
    button.addEventListener('click', () => show(form))
    chip.append(dot, text, button)
    document.body.append(chip)
    requestAnimationFrame(() => {{  // when it is drawn, which a tab in the background is not
      state.since = now()
      if (!isTyping()) reveal(form)
    }})
    if (!beat) beat = setInterval(tick, 250)
    tick()
  }}
  const viewOf = form => [...form.classList].find(each => each.startsWith('anb-view-'))

  const forget = (form, state) => {{
    forms.delete(form)
    for (const each of [state.eyes, state.look, state.watch]) each.disconnect()
    state.chip.remove()
    const {{was}} = state
    if (state.isInside && document.activeElement === document.body && was?.isConnected)
      was.focus({{preventScroll: true}})
  }}
  const tick = () => {{
    for (const [form, state] of forms) {{
      if (!form.isConnected || form.closest('.jupyter-widgets-disconnected')) {{
        forget(form, state)
        continue
      }}
      state.isInside = form.contains(document.activeElement)
      const seconds = Math.floor((now() - state.born) / 1000)
      const since = form.querySelector('.{SINCE}')
      const passed = seconds < 60 ? `${{seconds}} s` : `${{Math.floor(seconds / 60)}} min`
      if (since && seconds) since.textContent = ` · ${{passed}}`
      const title = form.querySelector('.{TITLE}')?.textContent
      if (title && state.chip.children[1].textContent !== title)
        state.chip.children[1].textContent = title
      measure(form)
      gate(form, state)
    }}
    const bare = document.title.replace(/^(● )+/, '')
    const title = forms.size ? `● ${{bare}}` : bare
    if (document.title !== title) document.title = title
    if (!forms.size) {{
      clearInterval(beat)
      beat = 0
    }}
  }}
  window.archytasNbForms = () => {{
    for (const form of document.querySelectorAll('.{FORM}'))
      if (!forms.has(form) && !form.closest('.jupyter-widgets-disconnected')) adopt(form)
  }}
  new MutationObserver(changes => {{
    for (const {{addedNodes, removedNodes}} of changes) {{
      for (const node of addedNodes)
        if (node.matches?.('.{FORM}') || node.querySelector?.('.{FORM}')) window.archytasNbForms()
      if (removedNodes.length && forms.size)
        for (const form of forms.keys()) if (!form.isConnected) return tick()
    }}
  }}).observe(document.body, {{childList: true, subtree: true}})
}}
window.archytasNbForms()
"""


def page_script() -> Html:
    """The script, which a page runs once; earlier than the first form, it knows who has typed."""
    return stylesheet(_SHEET, onload=_SCRIPT)
